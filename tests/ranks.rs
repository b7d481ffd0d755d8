//! Ranks of a test: threads, or processes with `RANKS_ARE=processes`, for tests whose ranks share
//! nothing but a communicator.

use std::cell::Cell;
use std::env;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _};
use std::iter;
use std::net::TcpListener;
use std::process::{Command, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{__private, DeviceFamily, Place, Result, Seat};

/// How long the ranks of a test may take.
const LIMIT: Duration = Duration::from_secs(60);

thread_local! {
    /// How many times this test has run ranks.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// [`typed_nccl::spmd`], in processes if they are asked for.
pub(crate) fn spmd<F: DeviceFamily>(
    n: usize,
    body: impl for<'id> Fn(Place<F::Scoped<'id>>) -> Result<()> + Sync,
) -> Result<()> {
    let are_processes = env::var("RANKS_ARE").is_ok_and(|are| are == "processes");
    if !are_processes || n < 2 {
        return typed_nccl::spmd::<F>(n, body);
    }
    let call = CALLS.get();
    CALLS.set(call + 1);
    let number = |name| env::var(name).ok().and_then(|value| value.parse::<usize>().ok());
    match (number("RANKS_CALL"), number("RANKS_RANK"), number("RANKS_PORT")) {
        (Some(this), Some(rank), Some(port)) if this == call => {
            let seat = Seat::tcp(format!("127.0.0.1:{port}"), rank, n)?;
            match __private::one_rank::<F>(seat, body) {
                Ok(()) => exit(0),
                Err(error) => {
                    eprintln!("rank {rank} failed: {error}");
                    exit(3)
                }
            }
        }
        (Some(_), ..) => typed_nccl::spmd::<F>(n, body),
        _ => {
            processes(n, call);
            Ok(())
        }
    }
}

/// A free port below those that the system gives to connections, one of which might take it before
/// rank 0 listens.
fn free_port() -> u16 {
    let random = || RandomState::new().build_hasher().finish();
    let ports = iter::repeat_with(|| 20_000 + (random() % 10_000) as u16);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.take(1000).find(is_free).expect("there is a free port")
}

/// Runs this test again as `n` processes, each of which is one rank in the test's call.
fn processes(n: usize, call: usize) {
    let test = thread::current().name().expect("a test has a name").to_owned();
    let port = free_port();
    let start = |rank: usize| {
        let mut this = Command::new(env::current_exe().expect("this program"));
        this.args(["--exact", &test, "--nocapture"]);
        this.env("RANKS_CALL", call.to_string()).env("RANKS_RANK", rank.to_string());
        this.env("RANKS_PORT", port.to_string()).env("RUST_TEST_THREADS", "2");
        this.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut child = this.spawn().expect("this program starts");
        let mut said = child.stderr.take().expect("it is piped");
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            let _ = said.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        });
        (child, reader)
    };
    let mut ranks: Vec<_> = (0..n).map(start).collect();
    let started = Instant::now();
    let mut codes = vec![None; n];
    while codes.iter().any(Option::is_none) && started.elapsed() < LIMIT {
        for ((child, _), code) in ranks.iter_mut().zip(&mut codes) {
            if code.is_none() {
                *code = child.try_wait().expect("a child").map(|status| status.code());
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    let mut all = String::new();
    for (rank, ((mut child, reader), code)) in ranks.drain(..).zip(&codes).enumerate() {
        let _ = child.kill();
        let _ = child.wait();
        let said = reader.join().unwrap_or_default();
        if *code != Some(Some(0)) {
            all += &format!("rank {rank} ended with {code:?}: {said}\n");
        }
    }
    assert!(all.is_empty(), "{all}");
}

/// The suite with ranks in processes.
#[test]
fn what_threads_do_processes_do() {
    let tests = ["elements::", "ends", "groups", "split", "windows"];
    let limit = Duration::from_secs(400);
    crate::again::run("ranks", limit, |this| {
        // It names what failed.
        this.args(tests).arg("-q").env("RANKS_ARE", "processes").stdout(io::stderr())
    });
}
