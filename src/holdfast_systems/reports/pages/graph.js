// The steps of a run as a graph: one column for each distance from the start, an arrow for each dependency.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 190, HEIGHT = 76, GAP_X = 64, GAP_Y = 18, MARGIN = 6;

export function drawGraph(run, describe) {
  const steps = run.steps || {};
  const columns = byDepth(steps);
  const places = {};
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const height = tallest * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN;
  columns.forEach((column, x) => {
    const free = (tallest - column.length) * (HEIGHT + GAP_Y) / 2;
    column.forEach((id, y) => {
      places[id] = [MARGIN + x * (WIDTH + GAP_X), MARGIN + free + y * (HEIGHT + GAP_Y)];
    });
  });
  const width = columns.length * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN;
  const svg = made("svg", { viewBox: `0 0 ${width} ${height}`, height, width, role: "img" });
  svg.append(made("title", {}, `Steps: ${Object.entries(steps).map(([id, step]) => `${id} ${step.state}`).join(", ")}`));
  for (const [id, step] of Object.entries(steps)) {
    for (const before of step.dependsOn || []) if (places[before]) svg.append(arrow(places[before], places[id]));
  }
  for (const [id, step] of Object.entries(steps)) svg.append(node(id, step, places[id], describe(step)));
  return svg;
}

function byDepth(steps) {
  const depths = {};
  const depth = (id, seen) => {
    if (id in depths) return depths[id];
    if (seen.has(id) || !steps[id]) return 0;
    seen.add(id);
    const before = (steps[id].dependsOn || []).map((needed) => depth(needed, seen) + 1);
    return (depths[id] = Math.max(0, ...before));
  };
  const columns = [];
  for (const id of Object.keys(steps)) (columns[depth(id, new Set())] ||= []).push(id);
  return Array.from(columns, (column) => column || []);
}

function node(id, step, [x, y], lines) {
  const group = made("g", { class: step.state || "PENDING", transform: `translate(${x} ${y})` });
  group.append(
    made("rect", { width: WIDTH, height: HEIGHT, rx: 10 }),
    made("text", { x: 12, y: 22, class: "name" }, short(id, 24)),
    made("text", { x: 12, y: 41, class: "state" }, step.state || "PENDING"),
    made("text", { x: 12, y: 60, class: "more" }, short(lines, 30)),
  );
  return group;
}

function arrow([fromX, fromY], [toX, toY]) {
  const x1 = fromX + WIDTH, y1 = fromY + HEIGHT / 2, y2 = toY + HEIGHT / 2, middle = (x1 + toX) / 2;
  return made("path", { d: `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${toX} ${y2}` });
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function made(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
