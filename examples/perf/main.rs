//! Measures collectives, transfers and puts, and prints the results like nccl-tests.
//!
//! ```text
//! cargo run --release -p perf -- --op all_reduce --ranks 2 --min 1K --max 1G --device cuda --check
//! cargo run --release -p perf -- --op all_gather --json found.json --plot found.svg
//! ```
//!
//! The ranks are threads of one process, each with a device. A time is that of `--iters` calls and
//! one wait, divided by the number of calls, after `--warmup` others. It is the mean over the
//! ranks, as in nccl-tests, unless `--average` says otherwise. Sizes are counted as in nccl-tests,
//! by the larger side of the operation. The bus bandwidth is the algorithm's bandwidth times the
//! factor of nccl-tests for the operation.
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
use std::fs;
use std::process::ExitCode;

use clap::Parser;
use typed_nccl::{Device, Host, Place, Result, bf16, f16};

use measure::{Found, measure};
use options::{Elements, Kind, Options};
use report::Report;

fn main() -> ExitCode {
    #[cfg(test)]
    if !tests::is_child() {
        return tests::all();
    }
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("{wrong} elements are wrong");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of wrong elements.
fn run(options: &Options) -> Result<u64, Box<dyn Error>> {
    if let Some(fault) = options.fault() {
        return Err(fault.into());
    }
    let report = Report::new(options);
    let tell = |rank: usize, found: Found| {
        if rank == 0 {
            report.tell(found);
        }
    };
    match options.device {
        Kind::Host => Host::spmd(options.ranks, |place| typed(place, options, &tell)).map(drop)?,
        Kind::Cuda => {
            typed_nccl::Cuda::spmd(options.ranks, |place| typed(place, options, &tell))
                .map(drop)?;
        }
    }
    let found = report.end();
    if let Some(path) = &options.json {
        fs::write(path, format!("{:#}\n", report::to_json(options, &found)))?;
    }
    if let Some(path) = &options.plot {
        plot::draw(path, options, &found)?;
    }
    Ok(found.iter().filter_map(|found| found.wrong).sum())
}

/// With the requested element type.
fn typed<D: Device>(
    place: Place<D>,
    options: &Options,
    tell: &(dyn Fn(usize, Found) + Sync),
) -> Result<()> {
    let comm = place.init()?;
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
