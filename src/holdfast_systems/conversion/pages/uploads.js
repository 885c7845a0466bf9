"use strict";

// Files on their way up, a few at a time. The same file again is the same job, so that whatever was lost is sent again.

const UPLOADS_AT_ONCE = 3;
const UPLOAD_TRIES = 4;
const uploads = [];

const canResend = (upload) => upload.state === "failed" && upload.file.size <= LIMIT;
const resend = (upload) => Object.assign(upload, { tries: 0, state: "ready", line: "" });

function offer(files) {
  const mapping = find("mapping").value;
  for (const file of files) {
    const upload = { id: `upload-${performance.now()}-${uploads.length}`, file, mapping, sent: 0, tries: 0, state: "ready", line: "" };
    if (file.size > LIMIT) Object.assign(upload, { state: "failed", line: tooLarge });
    uploads.unshift(upload);
  }
  sendNext();
  draw();
}

function sendNext() {
  const under = uploads.filter((one) => one.state === "uploading").length;
  const ready = uploads.filter((one) => one.state === "ready").reverse();
  for (const upload of ready.slice(0, Math.max(0, UPLOADS_AT_ONCE - under))) send(upload);
}

function send(upload) {
  upload.state = "uploading";
  upload.tries += 1;
  const request = upload.request = new XMLHttpRequest();
  request.open("POST", `${root}/api/upload`);
  request.responseType = "json";
  request.upload.addEventListener("progress", (event) => { upload.sent = event.loaded / event.total; draw(); });
  request.addEventListener("load", () => arrived(upload, request));
  request.addEventListener("error", () => broken(upload));
  const form = new FormData();
  form.append("mapping", upload.mapping);
  form.append("file", upload.file);
  request.send(form);
}

function arrived(upload, request) {
  if (request.status < 300) {
    drop(upload);
    note(request.response);
    if (request.response.created) counts.active += 1; // the next listing tells the same
    else say(`${upload.file.name} is there already.`);
    watch();
  } else {
    const error = request.response?.error;
    // What the server keeps as a failed job is told by the server.
    if (["NOT_PDF", "TOO_LARGE", "IO_ERROR"].includes(error?.code)) { drop(upload); refresh(); }
    else Object.assign(upload, { state: "failed", line: error?.message || "Something unexpected went wrong." });
    say(`${upload.file.name}: ${error?.message || "failed"}`);
  }
  sendNext();
  draw();
}

// The same file again is the same job, so a lost reply costs nothing but the sending.
function broken(upload) {
  if (upload.tries >= UPLOAD_TRIES) {
    Object.assign(upload, { state: "failed", line: "The connection was lost." });
    sendNext();
  } else {
    upload.state = "pausing";
    setTimeout(() => { if (upload.state === "pausing") { upload.state = "ready"; sendNext(); } }, 500 * 2 ** upload.tries);
  }
  draw();
}

function drop(upload) {
  const place = uploads.indexOf(upload);
  if (place >= 0) uploads.splice(place, 1);
}
