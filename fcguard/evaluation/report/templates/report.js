(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var narrow = window.matchMedia("(max-width: 640px)");

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function shade(word) {
    return colour(word === "faint" ? "bar-faint" : word);
  }

  function painted(trace) {
    var copy = JSON.parse(JSON.stringify(trace));
    var word = copy.meta;
    var fill = Array.isArray(word) ? word.map(shade) : shade(word);
    copy.marker = Object.assign({}, copy.marker, { color: fill });
    if (copy.type === "scatter") {
      copy.line = { color: fill, width: 2.5, dash: word === "good" ? "dot" : "solid" };
      copy.marker.size = 8;
    }
    if (copy.error_x) { copy.error_x.color = colour("ink"); }
    return copy;
  }

  function laidOut(layout) {
    var copy = JSON.parse(JSON.stringify(layout));
    copy.paper_bgcolor = "rgba(0,0,0,0)";
    copy.plot_bgcolor = "rgba(0,0,0,0)";
    copy.font = { color: colour("ink"), size: narrow.matches ? 11 : 13, family: "system-ui, sans-serif" };
    ["xaxis", "yaxis"].forEach(function (axis) {
      copy[axis] = Object.assign({}, copy[axis], {
        gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), fixedrange: true
      });
    });
    copy.autosize = true;
    return copy;
  }

  function draw() {
    Object.keys(figures).forEach(function (id) {
      var figure = figures[id];
      Plotly.react(id, figure.data.map(painted), laidOut(figure.layout), {
        responsive: true, displayModeBar: false, displaylogo: false
      });
    });
  }

  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
}());
