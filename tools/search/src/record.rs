//! Collects the learning curves of a study whose trials ran to their ends.

use std::{fs, path::Path};

use oomph_core::files::{Existing, write_file};
use serde_json::{Value, json};

use crate::Error;

/// Writes the curves of all trials of a study into a JSON file for [`curves`](crate::curves), a line for each trial.
///
/// # Errors
///
/// If the folder has no trials, or a file cannot be read or written.
pub fn run(study: &Path, file: &Path) -> Result<(), Error> {
    let trials = study.join("trials");
    let listed = fs::read_dir(&trials).map_err(|error| format!("`{}`: {error}", trials.display()))?;
    let mut folders = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Error>>()?;
    folders.sort();
    let curves = folders.iter().map(|folder| curve(folder)).collect::<Result<Vec<_>, _>>()?;
    let lines: Vec<_> = curves.iter().map(|curve| format!("  {}", json!({ "values": curve }))).collect();
    let text = format!("{{\"metric\": \"eval loss\", \"curves\": [\n{}\n]}}\n", lines.join(",\n"));
    write_file(file, Existing::Replace, |out| out.write_all(text.as_bytes()))?;
    println!("{} curves in {}", curves.len(), file.display());
    Ok(())
}

/// The loss after each epoch of a trial, with six digits. Beyond its last one it is missing.
fn curve(folder: &Path) -> Result<Vec<Option<f64>>, Error> {
    let log = folder.join("metrics.jsonl");
    let text = oomph_core::read_text(&log).map_err(|error| format!("`{}`: {error}", log.display()))?;
    let mut values = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line)?;
        let epoch = event["epoch"].as_u64().filter(|_| event["event"] == "eval").unwrap_or(0) as usize;
        if epoch > 0 {
            values.resize(values.len().max(epoch), None);
            let loss = event["eval_loss"].as_f64();
            values[epoch - 1] = loss.map(|loss| format!("{loss:.5e}").parse()).transpose()?;
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::Curves;

    #[test]
    fn curves_are_those_of_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        let trial = |number: usize, log: &str| {
            let trial = folder.path().join(format!("trials/{number:05}"));
            fs::create_dir_all(&trial).unwrap();
            fs::write(trial.join("metrics.jsonl"), log).unwrap();
        };
        trial(1, "{\"event\":\"eval\",\"epoch\":1,\"eval_loss\":null}\n");
        trial(
            0,
            "{\"event\":\"step\",\"epoch\":1}\n{\"event\":\"eval\",\"epoch\":1,\"eval_loss\":2.3456789}\n\
             {\"event\":\"eval\",\"epoch\":2,\"eval_loss\":1.5}\n",
        );
        let file = folder.path().join("curves.json");
        run(folder.path(), &file).unwrap();
        let curves: Curves = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let values: Vec<_> = curves.curves.into_iter().map(|curve| curve.values).collect();
        assert_eq!(values, [vec![Some(2.34568), Some(1.5)], vec![None]]);
        assert!(run(&folder.path().join("nothing"), &file).is_err());
    }
}
