(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var config = { displayModeBar: false, responsive: true, scrollZoom: false };
  var dark = window.matchMedia("screen and (prefers-color-scheme: dark)").matches;
  // running plotly.js takes longer than all else on the page: wait until a chart is needed
  function loadPlotly() {
    var script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.appendChild(script);
  }
  function draw(place) {
    if (!window.Plotly) { loadPlotly(); }
    var figure = figures[place.dataset.figure], layout = figure.layout;
    if (dark) {
      layout.font.color = "#a9b6c8";
      [layout.xaxis, layout.yaxis].forEach(function (axis) { axis.gridcolor = "#2a3547"; axis.linecolor = "#334155"; });
      (layout.shapes || []).forEach(function (shape) { shape.opacity = 0.18; if (shape.label && shape.label.font) { shape.label.font.color = "#e5e9f0"; } });
    }
    Plotly.newPlot(place, figure.data, figure.layout, config);
  }
  var places = document.querySelectorAll(".plot");
  if (!("IntersectionObserver" in window) || window.matchMedia("print").matches) {
    places.forEach(draw);
    return;
  }
  var seen = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    });
  }, { rootMargin: "600px" });
  places.forEach(function (place) { seen.observe(place); });
  window.addEventListener("beforeprint", function () {
    places.forEach(function (place) { if (!place.hasChildNodes()) { draw(place); } });
  });
})();
