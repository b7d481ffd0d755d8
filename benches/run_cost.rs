//! What a run of a plan of 64 all_reduces costs the host, against a device that does nothing.
//!
//! `cargo bench -p benches --bench run_cost` gives nanoseconds. `cargo run -p xtask -- cost` counts
//! instructions: it runs `run_cost NAME N` under callgrind for each of these functions.

mod null;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use null::Null;
use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Bound, Values};
use typed_nccl::{Buffer, Communicator, Device, Result, Seat, Sum};

const BUFFERS: usize = 64;

/// Elements in each buffer; the null device does not look at them.
const COUNT: usize = 256;

const ROUNDS: usize = 20;

/// One run, with a buffer for each name.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn run_of_names(
    plan: &mut Bound<Null>,
    comm: &Communicator<Null>,
    names: &[String],
    buffers: &mut [Buffer<f32, Null>],
) -> Result<()> {
    let given = names.iter().zip(buffers);
    given.fold(plan.on(comm), |run, (name, x)| run.write(name, x)).run(&mut ())
}

/// One run, with an array of buffers.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn run_of_array(
    plan: &mut Bound<Null>,
    comm: &Communicator<Null>,
    buffers: &mut [Buffer<f32, Null>],
) -> Result<()> {
    plan.on(comm).write("g", buffers).run(&mut ())
}

/// A plan of each kind with its memory.
struct Bench {
    comm: Communicator<Null>,
    names: Vec<String>,
    plan: Bound<Null>,
    buffers: Vec<Buffer<f32, Null>>,
    has_names: bool,
}

/// The ways to run it: whether it has names, whether it is captured.
const WAYS: [(&str, bool, bool); 4] = [
    ("names", true, false),
    ("array", false, false),
    ("captured names", true, true),
    ("captured array", false, true),
];

impl Bench {
    fn new(seat: Seat, has_names: bool, is_captured: bool) -> Result<Self> {
        let device = Null(seat.rank().index() as u32);
        let mut comm = seat.init(device)?;
        let names: Vec<_> = (0..BUFFERS).map(|i| format!("x{i}")).collect();
        let mut declared = PlanBuilder::new("measured");
        declared.ranks(1..);
        if is_captured {
            declared.captured();
        }
        let net = declared.stream("net");
        if has_names {
            for name in &names {
                let x = declared.in_out::<f32>(name, COUNT as i64);
                declared.on(net).all_reduce_in_place(x, Sum);
            }
        } else {
            let g = declared.array(BUFFERS as i64).in_out::<f32>("g", |_| COUNT);
            declared.for_each("i", ..BUFFERS as i64, |plan, i| {
                plan.on(net).all_reduce_in_place(g.at(i), Sum);
            });
        }
        let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let told = plan.describe();
        assert!(told.contains("one kernel for 64 all_reduces"), "{told}");
        let buffers = (0..BUFFERS).map(|_| comm.device().zeros(COUNT)).collect::<Result<_>>()?;
        let mut bench = Self { comm, names, plan, buffers, has_names };
        // The first run notes the stream, and captures. Not through the functions that are counted.
        let mut run = bench.plan.on(&bench.comm);
        if has_names {
            for (name, x) in bench.names.iter().zip(&mut bench.buffers) {
                run = run.write(name, x);
            }
        } else {
            run = run.write("g", &mut bench.buffers);
        }
        run.run(&mut ())?;
        Ok(bench)
    }

    fn run(&mut self, runs: u64) -> Result<()> {
        let Self { comm, names, plan, buffers, has_names } = self;
        for _ in 0..runs {
            let (plan, comm) = (black_box(&mut *plan), black_box(&*comm));
            match has_names {
                true => run_of_names(plan, comm, black_box(names), black_box(buffers))?,
                false => run_of_array(plan, comm, black_box(buffers))?,
            }
        }
        Ok(())
    }

    /// Nanoseconds a run: the best of several rounds.
    fn time(&mut self, runs: u64) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            self.run(runs)?;
            best = best.min(start.elapsed().as_nanos() as f64 / runs as f64);
        }
        Ok(best)
    }
}

/// Has one rank of two do something while the other one is there.
fn first_of_two(has_names: bool, is_captured: bool, go: impl Fn(Bench) -> Result<()> + Sync) {
    let outcomes: Vec<_> = std::thread::scope(|threads| {
        let start = |seat: Seat| {
            let go = &go;
            threads.spawn(move || {
                let is_first = seat.rank().index() == 0;
                let bench = Bench::new(seat, has_names, is_captured)?;
                if is_first { go(bench) } else { bench.comm.finish() }
            })
        };
        let ranks: Vec<_> = Seat::local(2).into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().expect("it does not panic")).collect()
    });
    outcomes.into_iter().for_each(|outcome| outcome.expect("nothing fails"));
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let runs = arguments.iter().rev().find_map(|argument| argument.parse::<u64>().ok());
    for (name, has_names, is_captured) in WAYS {
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        first_of_two(has_names, is_captured, |mut bench| {
            match runs {
                Some(runs) => bench.run(runs)?,
                None => {
                    let nanos = bench.time(if is_bench { 20_000 } else { 20 })?;
                    println!("{BUFFERS} all_reduces, {name:<16} {nanos:>9.1} ns a run");
                }
            }
            bench.comm.finish()
        });
    }
    ExitCode::SUCCESS
}
