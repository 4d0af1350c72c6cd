// Rows of files, and what becomes of them, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as data from "../../wrap/serve/internal/page/assets/data.js";

const input = (name, ...shape) => ({ name, datatype: "FP32", shape: [-1, ...shape] });
const body = (model, text, row = 0) => {
  const file = data.read(text, false);
  return data.bodyOf(model, data.fields(model, file.columns, file.rows[row]));
};

test("all columns but the label feed the only input", () => {
  const model = { inputs: [input("x", 3)] };
  assert.equal(body(model, "a,b,label,c\n1,2,7,3\n"), '{"x":[1,2,3]}');
  assert.equal(data.labelOf(model, data.read("a,label\n1,7\n").rows[0]), "7");
});

test("columns that are called like inputs feed them, whatever their order", () => {
  const model = { inputs: [input("age", 1), { name: "colour", datatype: "BYTES", shape: [-1] }] };
  assert.equal(body(model, 'colour,other,age\n"a ""b"", c",1,34\r\n'), '{"age":[34],"colour":"a \\"b\\", c"}');
  assert.throws(() => body(model, "age,other\n1,2\n"), /no column colour/);
});

test("numbers keep their digits, and what is none is refused", () => {
  const x = input("x", 1);
  for (const [text, want] of [["007", "7"], ["+.5", "0.5"], ["5.", "5"], ["-0", "-0"], ["1.e3", "1e3"], ["123456789012345678", "123456789012345678"],
    ["", "null"], ["NaN", "NaN"], ["-inf", "-Infinity"], ["0.10", "0.10"], ["1e-7", "1e-7"]]) {
    assert.equal(data.literal(x, text, "x"), want);
  }
  for (const text of ["abc", ".", "1,5", "0x10", "1e", "--1"]) assert.throws(() => data.literal(x, text, "x"), /is not a number/);
});

test("tables are separated by commas, or else by tabs or semicolons", () => {
  const model = { inputs: [input("x", 2)] };
  for (const s of [",", "\t", ";"]) assert.equal(body(model, `\uFEFFa${s}b\n\n1${s}2`), '{"x":[1,2]}');
  assert.deepEqual(data.read("a,b\n1,", false).rows, [{ a: "1", b: "" }]);
  assert.throws(() => data.read("a,b\n1\n", false), /Row 1 has 1 cells/);
  assert.throws(() => data.read('a\n"b', false), /no closing quote/);
  assert.throws(() => data.read("a,b\n", false), /no rows/);
});

test("JSON lines have rows as they are, and lists in the shape of the input", () => {
  const model = { inputs: [input("x", 2)] };
  assert.equal(body(model, '{"x":[1,2],"label":"b"}\n{"x":[3,4.5]}\n', 1), '{"x":[3,4.5]}');
  assert.equal(body({ inputs: [input("m", 2, 2)] }, '{"m":[[1,2],[3,4]]}'), '{"m":[[1,2],[3,4]]}');
  assert.throws(() => data.read('{"x":1}\nno\n', false), /Line 2 is not JSON/);
  assert.throws(() => data.read("[1]\n", false), /Line 1 is not a JSON object/);
});

test("of a file that was cut the last row is left out", () => {
  assert.equal(data.read("a,b\n1,2\n3,", true).rows.length, 1);
  assert.equal(data.read('{"a":1}\n{"a":', true).rows.length, 1);
  assert.equal(data.read("a\n" + "1\n".repeat(data.mostRows + 5), false).rows.length, data.mostRows);
});

test("many values are one field of JSON", () => {
  const model = { inputs: [input("x", 100)] };
  const names = Array.from({ length: 100 }, (_, i) => `c${i}`);
  const file = data.read(`${names.join(",")}\n${names.map((_, i) => i).join(",")}`, false);
  const fields = data.fields(model, file.columns, file.rows[0]);
  assert.equal(fields.length, 1);
  assert.deepEqual(JSON.parse(data.bodyOf(model, fields)).x.length, 100);
  fields[0].text = "[1,";
  assert.throws(() => data.bodyOf(model, fields), /want a JSON list/);
  assert.equal(data.empty({ inputs: [input("x", 3), input("y", -1), input("z")] }).length, 5);
});

test("what is not certain is never called 0 or 100 %", () => {
  for (const [p, want] of [[0, "0.0 %"], [1e-9, "< 0.1 %"], [0.0005, "0.1 %"], [0.5, "50.0 %"], [0.9994, "99.9 %"], [0.9996, "> 99.9 %"], [1, "100.0 %"]]) {
    assert.equal(data.percent(p), want);
  }
});
