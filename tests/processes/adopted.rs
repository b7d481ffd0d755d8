//! Communicators made by NCCL's own functions, between processes.

use std::env;

use typed_nccl::{AnyDevice, Communicator, Cuda, Result, Seat};

use crate::machine::Test;
use crate::raw::{meet, number};

#[path = "../raw/body.rs"]
mod body;

use body::{Raw, config, goes_round, id};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_communicator_of_another_library",
        program: || round(true),
        test: |run| run.ranks(3).succeed(),
    },
    Test {
        name: "a_communicator_of_another_library_that_does_not_block",
        program: || round(false),
        test: |run| run.ranks(2).succeed(),
    },
    Test {
        name: "a_communicator_of_another_library_that_has_another_rank",
        program: crossed,
        test: |run| run.ranks(2).succeed(),
    },
];

fn theirs(blocks: bool) -> Result<Raw> {
    let (rank, size) = (number("RANK"), number("WORLD_SIZE"));
    let id = meet(rank == 0, || id().to_vec()).try_into().expect("an id is so long");
    Raw::join(&gpu()?, id, (rank, size), blocks)
}

fn gpu() -> Result<Cuda<AnyDevice>> {
    Cuda::any(number("LOCAL_RANK") as u32)
}

fn round(blocks: bool) -> Result<()> {
    let (rank, size) = (number("RANK"), number("WORLD_SIZE"));
    let place = env::var_os("FAKE_NCCL_MOVES").expect("it has a stage");
    let second = std::path::Path::new(&place).join("second.seats");
    goes_round(theirs(blocks)?, gpu, [Seat::from_env()?, Seat::file(second, rank, size)?])
}

fn crossed() -> Result<()> {
    let (raw, rank) = (theirs(true)?, number("RANK"));
    let address = |name| env::var(name).expect("it was started as a rank");
    let address = format!("{}:{}", address("MASTER_ADDR"), address("MASTER_PORT"));
    let seat = Seat::tcp(address, 1 - rank, 2)?;
    let comm = Communicator::builder().seat(seat).device(gpu()?).config(config()).build();
    // SAFETY: nothing else uses it until it is refused.
    let error = unsafe { comm.with_raw(raw.comm) }.connect().expect_err("the seats are crossed");
    let text = error.to_string();
    assert!(text.contains("rank 1 of 2 on cuda:1, to a seat of rank 0 of 2 on cuda:1"), "{text}");
    assert_eq!(raw.sum(&gpu()?, 1 + rank as i64)?, 3);
    raw.destroy();
    Ok(())
}
