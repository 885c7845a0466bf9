// The part of an address after # is known to the browser alone: it is sent along, so that one comes back to it.
"use strict";
const next = document.getElementById("next");
if (location.hash && !next.value.includes("#")) next.value += location.hash;
