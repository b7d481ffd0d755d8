//! One NCCL, which fits the driver.

use crate::{Finding, Library, Machine};

/// The oldest release that works.
const OLDEST: (u32, u32) = (2, 18);

pub(crate) fn check(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    match &machine.loaded {
        Some(Ok((file, version))) => {
            found.push(Finding::ok("NCCL", format!("{version} is loaded from {}", file.display())));
        }
        Some(Err(_)) if machine.gpus.is_empty() && machine.libraries.is_empty() => {
            found.push(Finding::note("NCCL", "none here, and there are no GPUs that need it"));
        }
        Some(Err(why)) => found.push(Finding::problem(
            "NCCL",
            why.lines().collect::<Vec<_>>().join("; "),
            "pip install nvidia-nccl-cu12 (or -cu13), or install libnccl2, or name the file in \
             TYPED_NCCL_LIB",
        )),
        None => {}
    }
    for library in &machine.libraries {
        found.push(Finding::note("NCCL's files", described(library)));
    }
    found.extend(several(&machine.libraries));
    found.extend(machine.libraries.iter().filter_map(|library| misfit(machine, library)));
    found
}

fn described(library: &Library) -> String {
    let release = library.release.as_deref().unwrap_or("a release that the file does not name");
    let cuda = library.cuda.map(|(major, minor)| format!(" for CUDA {major}.{minor}"));
    let (file, by) = (library.file.display(), library.by);
    format!("{release}{} in {file} (by {by})", cuda.unwrap_or_default())
}

/// Two releases, of which two programs of one job may find different ones.
fn several(libraries: &[Library]) -> Option<Finding> {
    let first = libraries.first()?;
    let other = libraries.iter().find(|library| library.release != first.release)?;
    Some(Finding::problem(
        "one NCCL",
        format!("two releases: {}, and {}", described(first), described(other)),
        "ranks of different releases do not connect, and torch and this library may load \
         different ones: remove one, or name one for all in TYPED_NCCL_LIB",
    ))
}

fn misfit(machine: &Machine, library: &Library) -> Option<Finding> {
    let numbers: Vec<u32> =
        library.release.iter().flat_map(|it| it.split('.')).flat_map(str::parse).collect();
    if let [major, minor, ..] = numbers[..]
        && (major, minor) < OLDEST
    {
        return Some(Finding::problem(
            "NCCL's release",
            described(library),
            format!("this library needs {}.{} or later", OLDEST.0, OLDEST.1),
        ));
    }
    let (driver, built) = (machine.cuda?, library.cuda?);
    // A driver runs every minor release of its CUDA.
    (built.0 > driver.0).then(|| {
        Finding::problem(
            "NCCL and driver",
            format!(
                "{}, and the driver runs CUDA up to {}.{}",
                described(library),
                driver.0,
                driver.1
            ),
            format!("install NCCL for CUDA {0} (nvidia-nccl-cu{0}), or a newer driver", driver.0),
        )
    })
}
