//! Draws the plots of kept results anew: `cargo run -p clscope-lab --example replot --
//! RESULTS.json DIR`. For work on the plots, without measuring again. Owns the reading of
//! results.json as far as plots need it; refuses to change a figure.

use clscope_lab::output::plot::{page, plots};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::results::{CaseResult, Figure, Finding, Results, SCHEMA, Status};
use clscope_microbench::stats::Interval;
use serde_json::Value;
use std::error::Error;
use std::path::PathBuf;

/// Names live as long as the program: results hold those of the program itself otherwise.
fn kept(value: &Value) -> &'static str {
    Box::leak(value.as_str().unwrap_or_default().to_owned().into_boxed_str())
}

fn figures(value: &Value) -> Vec<Figure> {
    let end = |v: &Value, open: f64| v.as_f64().unwrap_or(open);
    let figure = |f: &Value| {
        let value = end(&f["value"], f64::NAN);
        let estimate = Interval::estimated(
            value,
            end(&f["low"], f64::NEG_INFINITY),
            end(&f["high"], f64::INFINITY),
        );
        Figure::new(f["name"].as_str().unwrap_or_default(), kept(&f["unit"]), estimate)
    };
    value.as_array().map(|all| all.iter().map(figure).collect()).unwrap_or_default()
}

fn list<T>(value: &Value, of: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().map(|all| all.iter().map(of).collect()).unwrap_or_default()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next().map(PathBuf::from)) else {
        return Err("two arguments are needed: results.json and a directory".into());
    };
    let v: Value = serde_json::from_slice(&std::fs::read(&from)?)?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let d = &v["device"];
    let device = DeviceFacts {
        name: text(&d["name"]),
        vendor: text(&d["vendor"]),
        platform: text(&d["platform"]),
        version: text(&d["version"]),
        driver: text(&d["driver"]),
        compute_units: d["compute_units"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(0),
        ..DeviceFacts::default()
    };
    let case = |c: &Value| CaseResult {
        id: text(&c["id"]),
        suite: kept(&c["suite"]),
        parameters: c["parameters"]
            .as_object()
            .map(|all| {
                all.iter().map(|(k, v)| (kept(&Value::from(k.as_str())), v.clone())).collect()
            })
            .unwrap_or_default(),
        swept: None,
        status: if c["status"] == "measured" { Status::Measured } else { Status::NotAvailable },
        reason: c["reason"].as_str().map(str::to_owned),
        build_log: None,
        timing: None,
        figures: figures(&c["figures"]),
        notes: Vec::new(),
        series: Vec::new(),
        counted: None,
    };
    let finding = |f: &Value| Finding {
        name: text(&f["name"]),
        text: text(&f["text"]),
        figures: figures(&f["figures"]),
        confidence: f["confidence"].as_f64(),
        method: kept(&f["method"]),
    };
    let results = Results {
        schema: SCHEMA,
        version: kept(&v["version"]),
        device,
        settings: Default::default(),
        cases: list(&v["cases"], case),
        findings: list(&v["findings"], finding),
        power_source: text(&v["power_source"]),
        interrupted: v["interrupted"] == true,
        meter: Vec::new(),
    };
    let plots = plots(&results)?;
    std::fs::create_dir_all(&to)?;
    for plot in &plots {
        std::fs::write(to.join(&plot.name).with_extension("svg"), &plot.svg)?;
    }
    std::fs::write(to.join("index.html"), page(&results, &plots))?;
    Ok(())
}
