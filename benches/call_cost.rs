//! What a typed call costs beside a direct one, against a device that does nothing.
//!
//! `cargo bench -p benches --bench call_cost` gives nanoseconds. `cargo run -p xtask -- cost`
//! counts instructions: it runs `call_cost typed N` or `call_cost direct N` under callgrind and
//! looks for the two functions by their symbols.

mod null;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use null::{Handle, Null, NullApi, SUCCESS, op_number};
use typed_nccl::{Buffer, Communicator, Device, Error, ReductionName, Seat, Sum};

/// Elements in each buffer; the null device does not look at them.
const COUNT: usize = 1024;

/// A typed call, warm: the buffers' last use was on the communicator's stream.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn typed_all_reduce(
    comm: &Communicator<Null>,
    send: &Buffer<f32, Null>,
    recv: &mut Buffer<f32, Null>,
) -> Result<(), Error> {
    comm.all_reduce(send, recv, Sum)
}

/// The call that bindings offer, with its status checked.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn direct_all_reduce(
    api: &NullApi,
    send: *const f32,
    recv: *mut f32,
    count: usize,
    comm: Handle,
    stream: Handle,
) -> Result<(), i32> {
    // ncclFloat32
    let (dtype, op) = (7, op_number(ReductionName::Add));
    // SAFETY: the null library's function asks for nothing.
    let status =
        unsafe { (api.all_reduce)(send.cast(), recv.cast(), count, dtype, op, comm, stream) };
    if status == SUCCESS { Ok(()) } else { Err(status) }
}

/// Both sides of the comparison, warm.
struct Bench {
    comm: Communicator<Null>,
    send: Buffer<f32, Null>,
    recv: Buffer<f32, Null>,
    api: &'static NullApi,
    from: Vec<f32>,
    to: Vec<f32>,
}

impl Bench {
    fn new() -> Result<Self, Error> {
        let comm = Seat::local(1).remove(0).init(Null(0))?;
        let (send, mut recv) = (comm.device().zeros(COUNT)?, comm.device().zeros(COUNT)?);
        // The first use of a buffer notes the stream; the first of a stream, the communicator. Not
        // through `typed_all_reduce`, so that it is not counted there.
        comm.all_reduce(&send, &mut recv, Sum)?;
        let (from, to) = (vec![0.0; COUNT], vec![0.0; COUNT]);
        Ok(Self { comm, send, recv, api: NullApi::load(), from, to })
    }

    fn typed(&mut self, calls: u64) -> bool {
        (0..calls).all(|_| {
            typed_all_reduce(
                black_box(&self.comm),
                black_box(&self.send),
                black_box(&mut self.recv),
            )
            .is_ok()
        })
    }

    fn direct(&mut self, calls: u64) -> bool {
        (0..calls).all(|_| {
            let (from, to) = (black_box(&self.from), black_box(&mut self.to));
            direct_all_reduce(
                black_box(self.api),
                from.as_ptr(),
                to.as_mut_ptr(),
                from.len(),
                black_box(1),
                black_box(2),
            )
            .is_ok()
        })
    }

    /// Nanoseconds per call: the best of several rounds, the two sides in turn.
    fn time(&mut self, calls: u64) -> Option<(f64, f64)> {
        let (mut typed, mut direct) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let mut well = self.typed(calls);
            typed = typed.min(start.elapsed().as_nanos() as f64 / calls as f64);
            let start = Instant::now();
            well &= self.direct(calls);
            direct = direct.min(start.elapsed().as_nanos() as f64 / calls as f64);
            if !well {
                return None;
            }
        }
        Some((typed, direct))
    }
}

const ROUNDS: usize = 20;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a call failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Error> {
    let mut bench = Bench::new()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let well = match arguments[..] {
        ["typed", calls] => bench.typed(number(calls)),
        ["direct", calls] => bench.direct(number(calls)),
        // `cargo bench` says so; `cargo test --benches` does not, and wants it short.
        _ => {
            let calls = if arguments.contains(&"--bench") { 5_000_000 } else { 1_000 };
            let time = bench.time(calls);
            if let Some((typed, direct)) = time {
                println!("typed  all_reduce {typed:8.2} ns a call");
                println!("direct all_reduce {direct:8.2} ns a call");
                println!("typed / direct    {:8.2}", typed / direct);
            }
            time.is_some()
        }
    };
    bench.comm.finish()?;
    Ok(well)
}

fn number(calls: &str) -> u64 {
    calls.parse().unwrap_or(1)
}
