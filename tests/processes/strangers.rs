//! Strangers: 10,000 of them connect to a rank that waits for the others. The ranks meet all the
//! same, nothing is allocated for the strangers' announcements, and they learn nothing.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use log::{LevelFilter, Log, Metadata, Record};
use typed_nccl::{Communicator, Cuda, Device, Error, Result, Seat, launch};

use crate::machine::{LIMIT, Test, with_gpus};
use crate::ranks::{Ranks, free_port};

pub(crate) const TESTS: &[Test] = &[STRANGERS, FILES];

const STRANGERS: Test = Test {
    name: "ten_thousand_strangers",
    program: || {
        log::set_logger(&Warnings).map_err(Error::other)?;
        log::set_max_level(LevelFilter::Warn);
        thread::spawn(opens);
        launch!(meets)?;
        println!("{} warnings in all", WARNINGS.load(Relaxed));
        Ok(())
    },
    test: |run| {
        let (port, program) = (free_port(), env::current_exe().expect("a test is a program"));
        let program = program.display().to_string();
        let rank = |rank: usize| {
            // Strangers leave the process most of its file descriptors.
            let few = ["-c", "ulimit -n 1024 && exec \"$0\"", &program];
            let mut command = with_gpus(run.by("sh", &few));
            command.env("TYPED_NCCL_ADDRESS", format!("127.0.0.1:{port}"));
            command.env("TYPED_NCCL_SECRET", "known to the ranks alone");
            command.envs([("RANK", rank.to_string()), ("WORLD_SIZE", "2".to_owned())]);
            command.env("LOCAL_RANK", rank.to_string()).env("TORCHELASTIC_RUN_ID", "strangers");
            command.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")]);
            command
        };
        let mut first = Ranks::these(1, |_| rank(0));
        let process = first.process(0);
        let ports = doors(process, port);
        let before = Memory::of(process);
        let mut strangers = Strangers::new(&ports);
        strangers.come(10_000);
        assert_eq!(strangers.seen, 10_000);
        let grown = Memory::of(process).since(&before);
        // One of them announces 4 GiB.
        assert!(grown.used < 16 << 10 && grown.mapped < 512 << 10, "KiB: {grown:?}");
        let second = Ranks::these(1, |_| rank(1));
        // Now that there is something to learn.
        strangers.come(1_500);
        second.succeed();
        first.hears(0, "met");
        let ended = first.ended().swap_remove(0);
        assert!(ended.status.success(), "{ended:?}");
        let count = ended.said.lines().find_map(|line| line.strip_suffix(" warnings in all"));
        let count = count.and_then(|count| count.parse::<u32>().ok()).expect("it says how many");
        assert!((1..=30).contains(&count), "{}", ended.said);
    },
};

/// A process that may open no more files reports that, as it cannot accept connections.
const FILES: Test = Test {
    name: "a_process_without_files_to_open",
    program: || {
        let (device, seat) = (Cuda::local()?, Seat::from_env()?);
        let comm = Communicator::builder().seat(seat).device(device).build();
        // It has reached the meeting place, which is here.
        let address = env::var("TYPED_NCCL_ADDRESS").map_err(Error::other)?;
        let address: SocketAddr = address.parse().map_err(Error::other)?;
        doors(process::id(), address.port());
        let mut files = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            files.push(file);
        }
        println!("no more files");
        let (mut starting, begun) = (comm.start()?, Instant::now());
        loop {
            let soon = Instant::now() + Duration::from_millis(100);
            let failed = starting.try_ready(soon).expect_err("the other never comes");
            let text = failed.error.to_string();
            assert!(matches!(failed.error, Error::Timeout(_)) && begun.elapsed() < LIMIT, "{text}");
            if text.contains("Too many open files") {
                println!("told: {text}");
                return Ok(());
            }
            starting = failed.value;
        }
    },
    test: |run| {
        let (port, program) = (free_port(), env::current_exe().expect("a test is a program"));
        let program = program.display().to_string();
        let mut command = with_gpus(run.by("sh", &["-c", "ulimit -n 64 && exec \"$0\"", &program]));
        command.env("TYPED_NCCL_ADDRESS", format!("127.0.0.1:{port}"));
        command.envs([("TYPED_NCCL_RANK", "0"), ("TYPED_NCCL_SIZE", "2")]);
        command.env("TYPED_NCCL_LOCAL_RANK", "0");
        let command = std::cell::RefCell::new(Some(command));
        let mut first = Ranks::these(1, |_| command.take().expect("it is one"));
        first.hears(0, "no more files");
        let _second = TcpStream::connect(("127.0.0.1", port)).expect("the system takes it");
        let ended = first.ended().swap_remove(0);
        assert!(ended.status.success(), "{ended:?}");
        assert!(ended.said.contains("Too many open files"), "{}", ended.said);
    },
};

/// Counts a program's warnings, and prints the number.
struct Warnings;

static WARNINGS: AtomicU32 = AtomicU32::new(0);

impl Log for Warnings {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.level() <= LevelFilter::Warn && WARNINGS.fetch_add(1, Relaxed) < 40 {
            println!("{}", record.args());
        }
    }

    fn flush(&self) {}
}

/// The process itself still works: it opens files, for instance.
fn opens() {
    loop {
        if let Err(error) = fs::File::open("/dev/null") {
            eprintln!("no file can be opened: {error}");
            process::exit(3);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn meets<D: Device>(comm: Communicator<D>) -> Result<()> {
    comm.barrier()?;
    println!("met");
    comm.finish()
}

/// The ports on which a process listens: the address's, and the one for its neighbours.
fn doors(process: u32, port: u16) -> Vec<u16> {
    let started = Instant::now();
    loop {
        let found = listens_at(process);
        if found.len() > 1 && found.contains(&port) {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "it listens at {found:?}, and not at {port}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn listens_at(process: u32) -> Vec<u16> {
    let fds = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let sockets: Vec<String> = fds
        .filter_map(|fd| fs::read_link(fd.path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|to| Some(to.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{process}/net/{table}"));
    let text = tables.map(|table| fs::read_to_string(table).unwrap_or_default()).concat();
    // Columns: number, address:port, other side, state (0A listens), .., socket
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_own = sockets.iter().any(|socket| words.get(9) == Some(&socket.as_str()));
        let listens = is_own && words.get(3) == Some(&"0A");
        let (_, port) = words.get(1).filter(|_| listens)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    text.lines().filter_map(port).collect()
}

/// A process's memory, in KiB.
#[derive(Debug)]
struct Memory {
    /// The peak.
    used: u64,
    /// Including untouched memory.
    mapped: u64,
}

impl Memory {
    fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or_else(|| panic!("{name} in {status}"))
        };
        Self { used: number("VmHWM:"), mapped: number("VmPeak:") }
    }

    fn since(&self, before: &Self) -> Self {
        Self { used: self.used - before.used, mapped: self.mapped - before.mapped }
    }
}

/// The most connections that stay; older ones make room.
const STAY: usize = 4_000;

/// How many connect before the first is answered.
const WAVE: usize = 500;

/// A challenge: four letters, the version, a number.
const CHALLENGE: usize = 4 + 18 + 32;

/// The rest of a claim: the communicator, the rank, a number, and the proof.
const CLAIM: usize = 16 + 1 + 8 + 32 + 32;

/// A verdict, with room for a proof.
const VERDICT: usize = 1 + 32;

/// Verdicts: the secret is wrong; there is no such communicator here, or no longer.
const REFUSED: [u8; 3] = [2, 4, 5];

struct Strangers<'a> {
    ports: &'a [u16],
    here: Vec<TcpStream>,
    seen: usize,
}

impl<'a> Strangers<'a> {
    fn new(ports: &'a [u16]) -> Self {
        raise_limit();
        Self { ports, here: Vec::new(), seen: 0 }
    }

    /// Connects this many more. Each gets what every stranger gets.
    fn come(&mut self, more: usize) {
        for _ in 0..more / WAVE {
            let start = self.here.len();
            for at in 0..WAVE {
                let port = self.ports[at % self.ports.len()];
                let stranger = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
                // The meeting place closes once the ranks have met, also on who is just connecting.
                match stranger {
                    Ok(stranger) => self.here.push(stranger),
                    Err(error) => {
                        let closed = [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset];
                        assert!(closed.contains(&error.kind()), "{error}");
                    }
                }
            }
            for (at, stranger) in self.here[start..].iter_mut().enumerate() {
                self.seen += usize::from(talks(stranger, at));
            }
            let most = self.here.len().saturating_sub(STAY);
            self.here.drain(..most);
        }
    }
}

/// Plays a stranger of this kind; returns whether it was answered.
fn talks(stranger: &mut TcpStream, kind: usize) -> bool {
    stranger.set_read_timeout(Some(LIMIT)).expect("it is a limit");
    let mut challenge = [0; CHALLENGE];
    if stranger.read_exact(&mut challenge).is_err() {
        return false;
    }
    assert_eq!(challenge[..4], *b"tnCP");
    let said = match kind % 5 {
        // Sends nothing.
        0 => return true,
        1 => stranger.write_all(&[0xff; 4096]),
        // A frame of 4 GiB, in the ranks' format.
        2 => stranger.write_all(&u32::MAX.to_le_bytes()),
        // Half of a valid claim.
        3 => stranger.write_all(&challenge[..22]),
        _ => {
            let claim = [&challenge[..22], &[0; CLAIM]].concat();
            stranger.write_all(&claim)
        }
    };
    if said.is_ok() && kind % 5 == 4 {
        let mut answer = Vec::new();
        // The connection ends with a reset if there was more to read.
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.len() == VERDICT, "{answer:?}");
        if let Some((verdict, proof)) = answer.split_first() {
            let is_empty = proof.iter().all(|byte| *byte == 0);
            assert!(REFUSED.contains(verdict) && is_empty, "{answer:?}");
        }
    }
    true
}

/// Enough for the connections that stay, and a wave.
fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for a write.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_cur.max((STAY + 2 * WAVE) as libc::rlim_t).min(limit.rlim_max);
    // SAFETY: the limit is complete, and no higher than the system allows.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}
