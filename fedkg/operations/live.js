"use strict";
// The server sends the changed part of the page with all texts escaped.
const live = document.getElementById("live");
const connection = document.getElementById("connection");
const source = new EventSource("/events");
source.addEventListener("view", (event) => {
  live.innerHTML = event.data;
  connection.textContent = "This page is live.";
});
source.addEventListener("error", () => {
  connection.textContent = "The connection to fedkg serve is lost; this page tries again.";
});
