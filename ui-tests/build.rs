//! Makes the twins modules of one program, `tests/twins.rs`: a copy of each, with a test that runs
//! its `main`.

use std::fmt::Write as _;
use std::{env, error, fs, path::Path};

fn main() -> Result<(), Box<dyn error::Error>> {
    let twins = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("twins");
    println!("cargo::rerun-if-changed={}", twins.display());
    let mut files = fs::read_dir(&twins)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    files.sort();
    let out = env::var("OUT_DIR")?;
    let mut list = String::new();
    for file in files {
        let name = file.file_stem().and_then(|name| name.to_str()).ok_or("a name in UTF-8")?;
        let copy = Path::new(&out).join(format!("twin_{name}.rs"));
        fs::write(&copy, fs::read_to_string(&file)? + "\ntwin!();\n")?;
        writeln!(list, "#[path = {copy:?}]\nmod {name};")?;
    }
    fs::write(Path::new(&out).join("twins.rs"), list)?;
    Ok(())
}
