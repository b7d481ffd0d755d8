//! The processes of one job, as started by torchrun, and their ends.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::iter;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, mem, process};

use crate::machine::LIMIT;

/// Running processes, which are killed when this is dropped.
pub(crate) struct Ranks(Vec<Rank>);

struct Rank {
    child: Child,
    /// Its output, with its errors.
    prints: PathBuf,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
    /// When its end was noticed.
    pub(crate) at: Instant,
}

/// Something that a test lets its processes know: a file appears.
pub(crate) struct Sign(PathBuf);

/// Where it appears.
const SIGN: &str = "TYPED_NCCL_TEST_SIGN";

impl Sign {
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("typed-nccl-sign.{}.{}", process::id(), MADE.fetch_add(1, Relaxed));
        Self(env::temp_dir().join(name))
    }

    /// Has a process wait for it.
    pub(crate) fn is_for(&self, command: &mut Command) {
        command.env(SIGN, &self.0);
    }

    pub(crate) fn give(&self) {
        fs::write(&self.0, "").expect("there is room for it");
    }

    /// Whether this process need not wait for it, or no longer.
    pub(crate) fn is_given() -> bool {
        env::var_os(SIGN).is_none_or(|path| Path::new(&path).exists())
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        // It may not have been given.
        let _ = fs::remove_file(&self.0);
    }
}

/// How often its end is checked.
const EVERY: Duration = Duration::from_millis(2);

impl Ranks {
    /// Starts a program for each rank; `of` returns the command of a rank.
    pub(crate) fn start(size: usize, of: impl Fn(usize) -> Command) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let job = format!("{}.{}", process::id(), STARTED.fetch_add(1, Relaxed));
        let port = free_port();
        Self::these(size, |rank| {
            let mut command = of(rank);
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
            command.env("LOCAL_RANK", rank.to_string()).env("LOCAL_WORLD_SIZE", size.to_string());
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            command.env("TORCHELASTIC_RUN_ID", &job);
            command
        })
    }

    /// Starts programs whose environment already identifies the rank.
    pub(crate) fn these(size: usize, of: impl Fn(usize) -> Command) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let start = |rank: usize| {
            let number = STARTED.fetch_add(1, Relaxed);
            let name = format!("typed-nccl-rank.{}.{number}", process::id());
            let prints = env::temp_dir().join(name);
            let file = fs::File::create(&prints).expect("there is room for what it prints");
            let mut command = of(rank);
            command.stdout(file.try_clone().expect("a file has two names")).stderr(file);
            Rank { child: command.spawn().expect("the program starts"), prints }
        };
        Self((0..size).map(start).collect())
    }

    /// Waits until a rank has printed this.
    #[track_caller]
    pub(crate) fn hears(&mut self, rank: usize, words: &str) {
        let started = Instant::now();
        while !self.0[rank].said().contains(words) {
            let ended = self.0[rank].child.try_wait().expect("a child can be waited for");
            if ended.is_some() || started.elapsed() > LIMIT {
                panic!("rank {rank} never says `{words}`: {}", self.all_said());
            }
            thread::sleep(EVERY);
        }
    }

    /// Kills a process, as `kill -9` does.
    pub(crate) fn kill(&mut self, rank: usize) {
        self.0[rank].child.kill().expect("a child can be killed");
    }

    /// Sends a signal to a process.
    pub(crate) fn signal(&self, rank: usize, signal: i32) {
        let process = libc::pid_t::try_from(self.process(rank)).expect("it is a process");
        // SAFETY: it takes numbers. The process is a child that was not waited for, so its number
        // is still its own.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0, "rank {rank} gets no signal");
    }

    /// Waits until a process has ended well.
    #[track_caller]
    pub(crate) fn ends(&mut self, rank: usize) {
        let started = Instant::now();
        loop {
            match self.0[rank].child.try_wait().expect("a child can be waited for") {
                Some(status) if status.success() => return,
                None if started.elapsed() < LIMIT => thread::sleep(EVERY),
                status => panic!("rank {rank} does not end well, {status:?}: {}", self.all_said()),
            }
        }
    }

    /// The number of a rank's process.
    pub(crate) fn process(&self, rank: usize) -> u32 {
        self.0[rank].child.id()
    }

    /// Waits for all of them, and returns how they ended.
    #[track_caller]
    pub(crate) fn ended(self) -> Vec<Ended> {
        self.ended_within(LIMIT)
    }

    /// Likewise, within a limit.
    #[track_caller]
    pub(crate) fn ended_within(mut self, limit: Duration) -> Vec<Ended> {
        let started = Instant::now();
        let mut ended: Vec<Option<(ExitStatus, Instant)>> = vec![None; self.0.len()];
        while let Some(running) = ended.iter().position(Option::is_none) {
            assert!(started.elapsed() < limit, "rank {running} hangs: {}", self.all_said());
            thread::sleep(EVERY);
            for (rank, ended) in self.0.iter_mut().zip(&mut ended) {
                if ended.is_none() {
                    let status = rank.child.try_wait().expect("it is a child");
                    *ended = status.map(|status| (status, Instant::now()));
                }
            }
        }
        let ended = self.0.iter().zip(ended.into_iter().flatten());
        ended.map(|(rank, (status, at))| Ended { status, said: rank.said(), at }).collect()
    }

    /// Checks that nothing went wrong on any rank.
    #[track_caller]
    pub(crate) fn succeed(self) {
        for (rank, ended) in self.ended().into_iter().enumerate() {
            assert!(ended.status.success(), "rank {rank}, {}: {}", ended.status, ended.said);
        }
    }

    fn all_said(&self) -> String {
        let said = |(number, rank): (usize, &Rank)| format!("\nrank {number}:\n{}", rank.said());
        self.0.iter().enumerate().map(said).collect()
    }
}

impl Rank {
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.prints).unwrap_or_default()).into_owned()
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.prints);
    }
}

/// A port at which nobody listens, and the first of five, as a job tries the four beside it. They
/// are below those that the system gives to connections, and this process keeps the first in UDP,
/// so that no other test takes one before a rank does.
pub(crate) fn free_port() -> u16 {
    let random = || RandomState::new().build_hasher().finish();
    let ports = iter::repeat_with(|| 10_000 + 5 * (random() % 2000) as u16);
    let is_free = |port: &u16| {
        let number = UdpSocket::bind(("127.0.0.1", *port)).map(mem::forget);
        number.is_ok() && TcpListener::bind(("127.0.0.1", *port)).is_ok()
    };
    ports.take(1000).find(is_free).expect("there is a free port")
}
