//! Measures collectives, transfers and puts, and prints the results like nccl-tests.
//!
//! ```text
//! cargo run --release -p perf -- --op all_reduce --ranks 2 --min 1K --max 1G --device cuda --check
//! cargo run --release -p perf -- --op all_gather --json found.json --plot found.svg
//! ```
//!
//! With `--ranks` or `--device` the ranks are threads of this process, each with a device. Without
//! them they are as in every program of `launch!`:
//!
//! ```text
//! TYPED_NCCL=host:3,processes target/release/perf --op all_gather
//! mpirun -n 2 target/release/perf --op all_reduce --max 1G
//! ```
//!
//! A time is that of `--iters` calls and one wait, divided by the number of calls, after `--warmup`
//! others. It is the mean over the ranks, as in nccl-tests, unless `--average` says otherwise.
//! Sizes are counted as in nccl-tests, by the larger side of the operation. The bus bandwidth is
//! the algorithm's bandwidth times the factor of nccl-tests for the operation.
//!
//! Exits with 1 if data is wrong or something fails.

mod measure;
mod options;
mod plot;
mod report;
#[cfg(test)]
mod tests;
mod values;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use typed_nccl::{Communicator, Cuda, Device, Host, Result, bf16, f16, launch};

use measure::{Found, measure};
use options::{Elements, Kind, Options};
use report::Report;

fn main() -> ExitCode {
    #[cfg(test)]
    if !tests::is_child() {
        return tests::all();
    }
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn run(options: &Options) -> Outcome {
    if let Some(fault) = options.fault() {
        return Err(fault.into());
    }
    let threads = options.ranks.unwrap_or(2);
    match (options.device, options.ranks) {
        (None, None) => launch!(|comm| rank(comm, options)),
        (Some(Kind::Cuda), _) => {
            Cuda::spmd(threads, |place| rank(place.init()?, options)).map(drop)
        }
        _ => Host::spmd(threads, |place| rank(place.init()?, options)).map(drop),
    }
}

/// Measures on every rank; rank 0 reports, and fails if data is wrong.
fn rank<D: Device>(comm: Communicator<D>, options: &Options) -> Outcome {
    let is_first = comm.rank().index() == 0;
    let mut report = is_first.then(|| Report::new(options, comm.size(), D::KIND));
    typed(comm, options, &mut |found| {
        if let Some(report) = &mut report {
            report.tell(found);
        }
    })?;
    report.map_or(Ok(()), Report::end)
}

/// With the requested element type.
fn typed<D: Device>(
    comm: Communicator<D>,
    options: &Options,
    tell: &mut dyn FnMut(Found),
) -> Result<()> {
    match options.dtype {
        Elements::I8 => measure::<i8, D>(comm, options, tell),
        Elements::U8 => measure::<u8, D>(comm, options, tell),
        Elements::I32 => measure::<i32, D>(comm, options, tell),
        Elements::U32 => measure::<u32, D>(comm, options, tell),
        Elements::I64 => measure::<i64, D>(comm, options, tell),
        Elements::U64 => measure::<u64, D>(comm, options, tell),
        Elements::F16 => measure::<f16, D>(comm, options, tell),
        Elements::Bf16 => measure::<bf16, D>(comm, options, tell),
        Elements::F32 => measure::<f32, D>(comm, options, tell),
        Elements::F64 => measure::<f64, D>(comm, options, tell),
    }
}
