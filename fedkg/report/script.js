(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var config = { displayModeBar: false, responsive: true, scrollZoom: false };
  function draw(place) {
    var figure = figures[place.dataset.figure];
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
