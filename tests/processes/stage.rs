//! Resources that processes on the doubles share: the libraries, and the folder in which data
//! moves.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Once};

use nccl_sys::ENVIRONMENT;

/// A folder that exists until this is dropped.
pub(crate) struct Stage {
    pub(crate) folder: PathBuf,
}

/// The prefix of the folders' names, followed by the process that made it.
const NAME: &str = "typed-nccl-doubles";

impl Stage {
    /// An empty one, in memory if the machine has a folder for that.
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
        sweep(&place);
        let made = MADE.fetch_add(1, Relaxed);
        let folder = place.join(format!("{NAME}.{}.{made}", process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        Self { folder }
    }

    /// Gives a process this many GPUs and an NCCL, all doubles.
    pub(crate) fn set(&self, command: &mut Command, gpus: usize) {
        let (driver, nccl) = &*LIBRARIES;
        for variable in ["CUDA_VISIBLE_DEVICES", "NCCL_HOSTID", "NCCL_RUNTIME_CONNECT"] {
            command.env_remove(variable);
        }
        command.env("LD_LIBRARY_PATH", driver).env(ENVIRONMENT, nccl);
        // It is also a double of NVRTC.
        command.env("TYPED_NCCL_NVRTC", driver.join("libcuda.so.1")).env("TYPED_NCCL_CACHE", "");
        command.env("FAKE_CUDA_DEVICES", gpus.to_string()).env("FAKE_NCCL_MOVES", &self.folder);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The next one removes any remains.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder of the driver's double, and NCCL's double.
static LIBRARIES: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let folder = libraries();
    fake_cuda::File::install(folder.join("cuda"));
    let nccl = fake_nccl::File::copy(folder.join("nccl"));
    (folder.join("cuda"), nccl.path().to_owned())
});

/// Where this process's doubles are: a program that loads them must not find newer ones at the same
/// place. They are not where data moves, as programs may not be executable there.
pub(crate) fn libraries() -> PathBuf {
    static SWEPT: Once = Once::new();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    SWEPT.call_once(|| sweep(place));
    place.join(format!("{NAME}.{}.libraries", process::id()))
}

/// Removes the remains of killed processes.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(NAME).and_then(|rest| rest.split('.').nth(1));
        let process = process.and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another process may do the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
