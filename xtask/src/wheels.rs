//! Released NCCLs: the wheels on PyPI, unpacked by pip into `target/nccl/<version>`.
//!
//! The wheels for CUDA 12 serve every check: they exist for all releases, and the header and the
//! exports do not depend on CUDA's version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nccl_sys::{BOUND, Version};

use crate::{Check, Failure, output, target};

/// One of each release that matters: the oldest, those that changed something, and the newest.
pub(crate) const CHECKED: [Version; 8] = [
    Version::new(2, 18, 3),
    Version::new(2, 22, 3),
    Version::new(2, 27, 7),
    Version::new(2, 28, 9),
    Version::new(2, 29, 7),
    Version::new(2, 30, 7),
    Version::new(2, 31, 2),
    BOUND,
];

/// The releases for tests.
const TESTED: [Version; 2] = [Version::new(2, 27, 7), BOUND];

const PIP: &str = "it gets NCCL from PyPI; install Python 3 with pip";

/// A release, unpacked.
pub(crate) struct Wheel {
    pub(crate) version: Version,
    folder: PathBuf,
}

impl Wheel {
    /// Downloads a release, unless present.
    pub(crate) fn fetch(version: Version) -> Check<Self> {
        let nccl = target().join("nccl");
        let wheel = Self { version, folder: nccl.join(version.to_string()) };
        if wheel.libnccl().is_file() {
            return Ok(wheel);
        }
        println!("fetching NCCL {version} into {}", wheel.folder.display());
        // Unpack beside it, then rename, so that a present release is complete.
        let part = nccl.join(format!("{version}.part"));
        let failed = |error: std::io::Error| {
            Failure::NotMade(format!("{} cannot be written: {error}", part.display()))
        };
        fs::create_dir_all(&nccl).map_err(failed)?;
        if part.exists() {
            fs::remove_dir_all(&part).map_err(failed)?;
        }
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--no-compile", "--only-binary", ":all:", "--target"])
            .arg(&part)
            .arg(format!("nvidia-nccl-cu12=={version}"));
        output(&mut pip, PIP)?;
        if wheel.folder.exists() {
            fs::remove_dir_all(&wheel.folder).map_err(failed)?;
        }
        fs::rename(&part, &wheel.folder).map_err(failed)?;
        if wheel.libnccl().is_file() {
            return Ok(wheel);
        }
        Err(Failure::NotMade(format!(
            "the wheel of {version} has no {}",
            wheel.libnccl().display()
        )))
    }

    /// These releases.
    pub(crate) fn fetch_all(versions: &[Version]) -> Check<Vec<Self>> {
        versions.iter().copied().map(Self::fetch).collect()
    }

    pub(crate) fn libnccl(&self) -> PathBuf {
        self.folder.join("nvidia/nccl/lib/libnccl.so.2")
    }

    #[cfg(feature = "abi")]
    pub(crate) fn include(&self) -> PathBuf {
        self.folder.join("nvidia/nccl/include")
    }
}

/// The releases on a command line, or [`CHECKED`] if there are none.
pub(crate) fn named(names: &[&str]) -> Check<Vec<Version>> {
    if names.is_empty() {
        return Ok(CHECKED.to_vec());
    }
    let version = |name: &&str| {
        let numbers: Option<Vec<u32>> = name.split('.').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some([major, minor, patch]) => Ok(Version::new(*major, *minor, *patch)),
            _ => Err(Failure::NotMade(format!("{name} is no version such as {BOUND}"))),
        }
    };
    names.iter().map(version).collect()
}

/// Downloads the releases for tests.
pub(crate) fn fetch_tested() -> Check {
    for version in TESTED {
        let wheel = Wheel::fetch(version)?;
        println!("NCCL {version}: {}", shown(&wheel.libnccl()).display());
    }
    Ok(())
}

/// A path relative to the workspace, if it is inside.
fn shown(path: &Path) -> &Path {
    path.strip_prefix(crate::root()).unwrap_or(path)
}
