// Many points on a canvas: by WebGL, which can draw a share of them, or one by one where WebGL is missing. The view is a scale and a middle.
const SHAPES = `attribute vec2 place; attribute vec3 colour; uniform vec2 scale; uniform vec2 middle; uniform float size; varying vec3 shade;
void main() { gl_Position = vec4((place - middle) * scale, 0.0, 1.0); gl_PointSize = size; shade = colour; }`;
const COLOURS = `precision mediump float; varying vec3 shade;
void main() { vec2 from = gl_PointCoord - 0.5; if (dot(from, from) > 0.25) discard; gl_FragColor = vec4(shade, 1.0); }`;

function program(gl) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, SHAPES], [gl.FRAGMENT_SHADER, COLOURS]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  return gl.getProgramParameter(made, gl.LINK_STATUS) ? made : null;
}

function attribute(gl, made, name, values, numbers, kind, normalised) {
  const place = gl.getAttribLocation(made, name), buffer = gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, numbers, kind, normalised, 0, 0);
}

// Values in an order whose beginning is spread over all points: every step-th, round and round.
function spread(values, numbers) {
  const count = values.length / numbers, made = new values.constructor(values.length);
  let step = Math.round(count * 0.618) || 1;
  while (divisor(step, count) > 1) step++;
  for (let to = 0, from = 0; to < count; to++, from = (from + step) % count) for (let part = 0; part < numbers; part++) made[to * numbers + part] = values[from * numbers + part];
  return made;
}
const divisor = (one, other) => (other ? divisor(other, one % other) : one);

function byWebGL(canvas, points, colours) {
  const gl = canvas.getContext("webgl", { antialias: false, alpha: true });
  const made = gl && program(gl);
  if (!made) return null;
  gl.useProgram(made);
  attribute(gl, made, "place", spread(points, 2), 2, gl.FLOAT, false);
  attribute(gl, made, "colour", spread(colours, 3), 3, gl.UNSIGNED_BYTE, true);
  const [scale, middle, size] = ["scale", "middle", "size"].map((name) => gl.getUniformLocation(made, name));
  return (view, pixels, share) => {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const [x, y] = scales(canvas, view);
    gl.uniform2f(scale, x, y);
    gl.uniform2f(middle, view.x, view.y);
    gl.uniform1f(size, pixels);
    gl.drawArrays(gl.POINTS, 0, Math.ceil(share * points.length / 2));
  };
}

function by2d(canvas, points, colours) {
  const context = canvas.getContext("2d");
  if (!context) return null;
  return (view, pixels) => {
    const { width, height } = canvas, [x, y] = scales(canvas, view);
    const image = context.createImageData(width, height), data = image.data, side = Math.max(1, Math.round(pixels * .8));
    for (let at = 0; at < points.length; at += 2) {
      const left = Math.round(((points[at] - view.x) * x + 1) * width / 2 - side / 2), above = Math.round((1 - (points[at + 1] - view.y) * y) * height / 2 - side / 2);
      if (!(left >= 0 && above >= 0 && left + side < width && above + side < height)) continue;
      const colour = (at / 2) * 3;
      for (let row = above; row < above + side; row++) for (let place = (row * width + left) * 4, end = place + 4 * side; place < end; place += 4) {
        data[place] = colours[colour]; data[place + 1] = colours[colour + 1]; data[place + 2] = colours[colour + 2]; data[place + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
  };
}

// From places to the canvas, whose sides go from -1 to 1: both directions have the same scale.
export function scales(canvas, view) {
  const side = Math.min(canvas.width, canvas.height);
  return [(view.zoom * side) / canvas.width, (view.zoom * side) / canvas.height];
}

export function plot(canvas, points, colours, plain) {
  const painted = plain ? null : byWebGL(canvas, points, colours);
  return { draw: painted ?? by2d(canvas, points, colours), kind: painted ? "WebGL" : "2D" };
}

// The nearest point within some pixels; -1 if no point is so near.
export function nearest(canvas, points, view, x, y, most) {
  const [across, up] = scales(canvas, view), { width, height } = canvas;
  const toX = across * width / 2, toY = up * height / 2;
  const atX = view.x + (x - width / 2) / toX, atY = view.y - (y - height / 2) / toY;
  let found = -1, least = (most / toX) ** 2;
  for (let at = 0; at < points.length; at += 2) {
    const distance = (points[at] - atX) ** 2 + (points[at + 1] - atY) ** 2;
    if (distance < least) { least = distance; found = at / 2; }
  }
  return found;
}
