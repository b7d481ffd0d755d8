//! Resources that a process still holds when its ranks are done.

use std::env;
use std::fs::{self, DirEntry};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nccl_sys::ENVIRONMENT;
use typed_nccl::{Error, Result};

/// See the module.
#[derive(Debug)]
struct Left {
    sockets: usize,
    /// Files, pipes and the like.
    files: usize,
    /// By name.
    threads: Vec<String>,
    /// Processes that it has started.
    children: usize,
    /// Memory that the doubles share with other processes.
    shared: usize,
    cuda: fake_cuda::Live,
    nccl: fake_nccl::Live,
    /// The doubles' misuse. A communicator may be revoked while a call is inside, or on its way
    /// there: NCCL refuses that one, and its thread returns as well.
    misuse: Vec<String>,
}

/// The most ranks that die.
const MOST_DEATHS: usize = 3;

/// How long ended connections and threads may take to go. A connection has five seconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Fails if this process holds more than is kept for the next communicator, however many ranks have
/// died, and however often it recovered.
pub(crate) fn nothing() -> Result<()> {
    let started = Instant::now();
    loop {
        let left = Left::now();
        if left.is_nothing() {
            return Ok(());
        }
        if started.elapsed() > LIMIT {
            return Err(Error::other(format!("it still holds {left:?}")));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Every rank of a job of this many processes has left its rooms, except for the dead ones, and has
/// at most one piece of NCCL's memory; the rest is cleared.
pub(crate) fn clear(folder: &Path, size: usize, dead: usize) {
    let all = || entries(folder);
    let is_memory = |file: &DirEntry| file.path().is_file();
    let memory: Vec<_> = all().filter(is_memory).collect();
    assert!(memory.len() <= size, "{memory:?} of {size} processes");
    memory.iter().for_each(|file| fs::remove_file(file.path()).expect("it is there"));
    for room in all() {
        let files = || entries(room.path());
        let named = |prefix| {
            files().filter(move |file| file.file_name().to_string_lossy().starts_with(prefix))
        };
        let (came, left) = (named("rank.").count(), named("gone.").count());
        // A rank that waits there for one that died before it came waits forever.
        let was_whole = left > 0;
        assert!(
            !was_whole || came <= left + dead,
            "{came} came, {left} left, {dead} died: {:?}",
            room.path()
        );
        fs::remove_dir_all(room.path()).expect("nobody is there any more");
    }
}

/// The contents of a folder.
fn entries(folder: impl AsRef<Path>) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

impl Left {
    fn now() -> Self {
        let files = || entries("/proc/self/fd").filter_map(|file| fs::read_link(file.path()).ok());
        let is_socket = |file: &Path| file.to_string_lossy().starts_with("socket:");
        let sockets = files().filter(|file| is_socket(file)).count();
        let children = entries("/proc/self/task")
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let name = |thread: DirEntry| {
            Some(fs::read_to_string(thread.path().join("comm")).ok()?.trim().to_owned())
        };
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let variable = |name| env::var(name).expect("the test names it");
        let stage = variable("FAKE_NCCL_MOVES");
        let cuda = Path::new(&variable("LD_LIBRARY_PATH")).join("libcuda.so.1");
        let cuda = fake_cuda::File::at(cuda).load();
        let nccl = fake_nccl::File::at(variable(ENVIRONMENT)).load();
        Self {
            sockets,
            files: files().count() - sockets,
            threads: entries("/proc/self/task").filter_map(name).collect(),
            children: children.map(|all| all.split_whitespace().count()).sum(),
            shared: maps.lines().filter(|line| line.contains(&stage)).count(),
            cuda: cuda.live(),
            nccl: nccl.live(),
            misuse: [cuda.misuse(), nccl.misuse()].concat(),
        }
    }

    /// Memory, streams and events are kept for reuse; threads and files belong to the control
    /// plane, the doubles, and this check.
    fn is_nothing(&self) -> bool {
        let Self { cuda, nccl, .. } = self;
        // NCCL does not free a rank that connects to one that died before it came: see
        // docs/guide/src/failure.md.
        let waits = |thread: &&String| thread.starts_with("NCCL init of");
        let waiting = self.threads.iter().filter(waits).count();
        let threads = self.threads.len() - waiting;
        let made = [nccl.communicators, nccl.device_communicators, nccl.registrations];
        let also_made = [nccl.windows, nccl.operators, cuda.pinned, cuda.mappings, self.children];
        made.iter().chain(&also_made).all(|made| *made == 0)
            && self.misuse.iter().all(|refused| refused.contains("revoked"))
            && (self.sockets <= 1 && self.files <= 10 && waiting <= MOST_DEATHS)
            && (threads <= 6 && self.shared <= 1 && nccl.allocations <= 1)
            && (cuda.streams <= 3 && cuda.events <= 4 && cuda.pieces <= 3)
    }
}
