//! Unordered puts and reads among the ranks of `launch!`, as threads and as processes: found in
//! every run, whichever rank is late.

use std::env;
use std::thread;
use std::time::Duration;

use typed_nccl::{Communicator, Device, Result, launch};

use crate::machine::{Run, Test, output};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_read_that_waits_for_the_first_of_two_puts",
        program: || launch!(reads_after_the_first),
        test: |run| in_every_run(run, "host:2", true),
    },
    Test {
        name: "rounds_without_a_signal_back",
        program: || launch!(rounds),
        test: |run| in_every_run(run, "host:3", true),
    },
    Test {
        name: "puts_and_reads_that_ranks_order",
        program: || launch!(ordered),
        test: |run| in_every_run(run, "host:2", false),
    },
];

/// The rank that comes late.
const LATE: &str = "TYPED_NCCL_TEST_LATE";

/// Runs the program as threads and as processes, with each rank late, and looks for the hazard.
fn in_every_run(run: &Run, ranks: &str, has_hazard: bool) {
    for asked in [ranks.to_owned(), format!("{ranks},processes")] {
        for late in ["none", "0", "1"].into_iter().cycle().take(9) {
            let mut command = run.bare();
            command.env("TYPED_NCCL", &asked).env(LATE, late);
            let ended = output(command);
            let told = String::from_utf8_lossy(&ended.stderr).contains("nothing orders the two");
            assert_eq!(told, has_hazard, "{asked}, late: {late}: {ended:?}");
            assert_eq!(ended.status.success(), !has_hazard, "{asked}, late: {late}: {ended:?}");
        }
    }
}

/// Sleeps if this rank is late.
fn come<D: Device>(comm: &Communicator<D>) {
    if env::var(LATE).is_ok_and(|late| late == comm.rank().index().to_string()) {
        thread::sleep(Duration::from_millis(50));
    }
}

fn reads_after_the_first<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (mut from, to) = (comm.window::<f32>(2)?, comm.window::<f32>(1)?);
    from.copy_from(&[1.0, 2.0])?;
    match comm.rank().index() {
        0 => {
            come(&comm);
            comm.wait_signal(1)?;
            to.to_vec()?;
        }
        _ => {
            comm.put_signal(from.slice(0..1), 0, to.at(0))?;
            come(&comm);
            comm.put_signal(from.slice(1..2), 0, to.at(0))?;
        }
    }
    comm.finish()
}

fn rounds<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (left, right) = (comm.ring(-1), comm.ring(1));
    let (mut from, to) = (comm.window::<f32>(1)?, comm.window::<f32>(1)?);
    for round in 0..3_u8 {
        from.copy_from(&[f32::from(round)])?;
        comm.put_signal(from.slice(0..1), right, to.at(0))?;
        comm.wait_signal(left)?;
        come(&comm);
        to.to_vec()?;
    }
    comm.finish()
}

/// What the host has seen reaches the other rank by each of the library's own ways.
fn ordered<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (from, to) = (comm.window::<f32>(1)?, comm.window::<f32>(1)?);
    let is_first = comm.rank().index() == 0;
    for round in 0..6 {
        if is_first {
            come(&comm);
            comm.put_signal(from.slice(0..1), 1, to.at(0))?;
        } else {
            comm.wait_signal(0)?;
            come(&comm);
            to.to_vec()?;
        }
        match round % 3 {
            0 => comm.barrier()?,
            1 => drop(comm.agree(round)?),
            _ if is_first => comm.wait_signal(1)?,
            _ => comm.signal(0)?,
        }
    }
    comm.finish()
}
