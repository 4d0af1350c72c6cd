//! Runs the files of prepare.py in RTen or Candle, and writes WORK/results/ENGINE/NETWORK.json as run.py does.
//!
//!     engines WORK rten|candle [ONLY [SECONDS]]

use candle_core::{DType, Device, Tensor as Candle};
use rten_tensor::prelude::*;
use serde_json::{json, Map, Value as Json};
use std::{collections::HashMap, fs, panic, path::Path, time::Instant};

type Failed = Box<dyn std::error::Error>;
/// Dimensions and numbers of an output.
type Output = (Vec<usize>, Vec<f64>);
type Run = Box<dyn Fn() -> Result<Vec<(String, Output)>, Failed>>;

struct Input {
    name: String,
    dims: Vec<usize>,
    floats: Option<Vec<f32>>,
    ints: Vec<i64>,
}

fn inputs(folder: &Path) -> Result<Vec<Input>, Failed> {
    let case: Json = serde_json::from_slice(&fs::read(folder.join("case.json"))?)?;
    let mut found = vec![];
    for (name, t) in case["inputs"].as_object().unwrap() {
        let raw = fs::read(folder.join(format!("{name}.bin")))?;
        let dims = t["dims"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
        let float = t["type"] == "float32";
        let floats = float.then(|| raw.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect());
        let ints = if float { vec![] } else { raw.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect() };
        found.push(Input { name: name.clone(), dims, floats, ints });
    }
    Ok(found)
}

fn rten(path: &Path, inputs: Vec<Input>) -> Result<Run, Failed> {
    let model = rten::Model::load_file(path)?;
    let mut feeds = vec![];
    for i in &inputs {
        let value: rten::Value = match &i.floats {
            Some(f) => rten_tensor::Tensor::from_data(&i.dims, f.clone()).into(),
            None => rten_tensor::Tensor::from_data(&i.dims, i.ints.iter().map(|&v| v as i32).collect::<Vec<_>>()).into(),
        };
        feeds.push((model.node_id(&i.name)?, value));
    }
    let ids = model.output_ids().to_vec();
    Ok(Box::new(move || {
        let values = model.run(feeds.iter().map(|(id, v)| (*id, v.into())).collect(), &ids, None)?;
        Ok(ids.iter().zip(values).map(|(id, v)| {
            let name = model.node_info(*id).and_then(|n| n.name().map(str::to_string)).unwrap_or_default();
            let numbers = match &v {
                rten::Value::FloatTensor(t) => t.iter().map(|&x| x as f64).collect(),
                rten::Value::Int32Tensor(t) => t.iter().map(|&x| x as f64).collect(),
                _ => vec![],
            };
            (name, (v.shape().to_vec(), numbers))
        }).collect())
    }))
}

fn candle(path: &Path, inputs: Vec<Input>) -> Result<Run, Failed> {
    let model = candle_onnx::read_file(path)?;
    let mut feeds = HashMap::new();
    for i in inputs {
        let t = match i.floats {
            Some(f) => Candle::from_vec(f, i.dims, &Device::Cpu)?,
            None => Candle::from_vec(i.ints, i.dims, &Device::Cpu)?,
        };
        feeds.insert(i.name, t);
    }
    Ok(Box::new(move || {
        let mut outputs = vec![];
        for (name, t) in candle_onnx::simple_eval(&model, feeds.clone())? {
            outputs.push((name, (t.dims().to_vec(), t.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?)));
        }
        Ok(outputs)
    }))
}

/// What f returns, with a panic as an error.
fn caught<T>(f: impl FnOnce() -> Result<T, Failed>) -> Result<T, String> {
    match panic::catch_unwind(panic::AssertUnwindSafe(f)) {
        Ok(result) => result.map_err(|e| format!("Error: {e}")),
        Err(e) => Err(format!("panic: {}", e.downcast_ref::<String>().cloned().or(e.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())),
    }
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().collect();
    let (work, engine) = (Path::new(&words[1]), words[2].as_str());
    let only = regex::Regex::new(words.get(3).map_or("", String::as_str))?;
    let seconds: f64 = words.get(4).map_or(Ok(2.0), |s| s.parse())?;
    let (load, version): (fn(&Path, Vec<Input>) -> _, _) = if engine == "rten" { (rten, "rten 0.27.0") } else { (candle, "candle-onnx 0.11.1") };
    let out = work.join("results").join(engine);
    fs::create_dir_all(&out)?;
    for entry in fs::read_dir(work.join("cases"))? {
        let folder = entry?.path();
        let network = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !only.is_match(&network) {
            continue;
        }
        let (mut files, mut runs, mut ms) = (Map::new(), vec![], Map::new());
        for file in ["plain", "features", "float64", "float32"] {
            let result = caught(|| {
                let run = load(&folder.join(format!("{file}.onnx")), inputs(&folder)?)?;
                let outputs: Map<String, Json> = run()?.into_iter().map(|(name, (dims, data))| (name, json!({"dims": dims, "data": data}))).collect();
                Ok((run, outputs))
            });
            println!("{engine} {network} {file} {}", result.as_ref().map_or_else(|e| e.clone(), |_| "ran".into()));
            match result {
                Ok((run, outputs)) => {
                    files.insert(file.into(), json!({"outputs": outputs}));
                    if file != "features" {
                        runs.push((file, run, vec![]));
                    }
                }
                Err(e) => drop(files.insert(file.into(), json!({"error": e}))),
            }
        }
        let start = Instant::now();
        while seconds > 0.0 && runs.len() > 1 && (start.elapsed().as_secs_f64() < seconds * runs.len() as f64 || runs[0].2.len() < 5) {
            for (_, run, took) in &mut runs {
                let start = Instant::now();
                run()?;
                took.push(1e3 * start.elapsed().as_secs_f64());
            }
        }
        for (file, _, took) in runs.into_iter().filter(|r| !r.2.is_empty()) {
            ms.insert(file.into(), json!(took.into_iter().fold(f64::INFINITY, f64::min)));
        }
        fs::write(out.join(format!("{network}.json")), json!({"engine": version, "files": files, "ms": ms}).to_string())?;
    }
    Ok(())
}
