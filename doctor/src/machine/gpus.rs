//! GPUs, as `nvidia-smi` lists them.

use std::process::Command;

use super::Gpu;

type Found = (Result<Vec<Gpu>, String>, Vec<(u32, u32)>, Option<(u32, u32)>);

const FIELDS: &str = "--query-gpu=index,name,mig.mode.current,compute_mode,driver_version";

pub(super) fn here() -> Found {
    match run(&[FIELDS, "--format=csv,noheader"]) {
        Ok(list) => {
            let gpus: Vec<Gpu> = list.lines().filter_map(gpu).collect();
            let peers = run(&["topo", "-p2p", "r"]).unwrap_or_default();
            let cuda = run(&[]).ok().and_then(|text| cuda(&text));
            (Ok(gpus), no_peers(&peers), cuda)
        }
        Err(why) => (Err(why), Vec::new(), None),
    }
}

fn run(arguments: &[&str]) -> Result<String, String> {
    match Command::new("nvidia-smi").args(arguments).output() {
        Ok(ended) if ended.status.success() => {
            Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
        }
        Ok(ended) => {
            let said = [ended.stdout, ended.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            Err(format!("nvidia-smi says: {said}"))
        }
        Err(_) => Err("there is no nvidia-smi".to_owned()),
    }
}

/// `0, NVIDIA H100 80GB HBM3, Disabled, Default, 550.54.15`
fn gpu(line: &str) -> Option<Gpu> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, name, divided, mode, driver] = fields[..] else { return None };
    Some(Gpu {
        index: index.parse().ok()?,
        name: name.to_owned(),
        is_divided: divided == "Enabled",
        mode: mode.to_owned(),
        driver: driver.to_owned(),
    })
}

/// `| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4   |`
fn cuda(text: &str) -> Option<(u32, u32)> {
    let rest = text.split("CUDA Version:").nth(1)?;
    let (major, minor) = rest.split_whitespace().next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The pairs whose cell is not `OK`, of a table with a column and a row for each GPU.
fn no_peers(table: &str) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for line in table.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let Some((row, cells)) = cells.split_first() else { continue };
        let row = row.strip_prefix("GPU").and_then(|row| row.parse::<u32>().ok());
        // The row of columns' names has names in its cells.
        let (Some(row), false) = (row, cells.iter().any(|cell| cell.starts_with("GPU"))) else {
            continue;
        };
        let of = |(column, cell): (u32, &&str)| {
            (column > row && *cell != "OK" && *cell != "X").then_some((row, column))
        };
        pairs.extend((0..).zip(cells).filter_map(of));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::{cuda, gpu, no_peers};

    #[test]
    fn lists_of_nvidia_smi_are_read() {
        let one = gpu("1, NVIDIA H100 80GB HBM3, Enabled, Default, 550.54.15").expect("a GPU");
        assert_eq!(
            (one.index, one.name.as_str(), one.is_divided),
            (1, "NVIDIA H100 80GB HBM3", true)
        );
        assert_eq!(gpu("no GPU"), None);
        assert_eq!(cuda("| Driver Version: 550.54.15   CUDA Version: 12.4     |"), Some((12, 4)));
        let table = " \tGPU0\tGPU1\tGPU2\t\n GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tOK\t\n GPU2\tCNS\tOK\tX\t\n\nLegend:\n";
        assert_eq!(no_peers(table), [(0, 2)]);
    }
}
