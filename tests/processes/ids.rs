//! Several NCCL ids for one communicator: requested by a program, and with many ranks.

use std::env;
use std::thread;

use fake_nccl::File;
use nccl_sys::Function::{ncclCommInitRankConfig, ncclCommInitRankScalable};
use nccl_sys::{ENVIRONMENT, Function, Version};
use typed_nccl::{Communicator, Cuda, Device, Error, Result, Seat, Sum, UniqueId, World};

use crate::machine::{Test, release};
use crate::ranks::Ranks;
use crate::raw::{meet, number};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "as_many_ids_as_are_given",
        program: given,
        test: |run| {
            run.ranks(4).succeed();
            let old = release(Version::new(2, 22, 3));
            let on_old = |_: usize| {
                let mut command = run.on_gpus();
                command.env(ENVIRONMENT, old.path());
                command
            };
            Ranks::start(4, on_old).succeed();
        },
    },
    Test {
        name: "an_id_for_each_block_of_many_ranks",
        program: many,
        test: |run| {
            let start = |_: usize| {
                let mut command = run.on_gpus();
                command.env("FAKE_CUDA_DEVICES", MANY.to_string());
                command
            };
            Ranks::these(1, start).succeed();
        },
    },
];

/// One more than one id serves.
const MANY: usize = 129;

/// How often ranks of this process called a function, with how many ids.
fn calls(wanted: Function) -> Vec<i128> {
    let path = env::var_os(ENVIRONMENT).expect("the test names the double");
    let log = File::at(path).load().log();
    let calls = log.iter().filter(|call| call.function == wanted);
    calls.map(|call| if wanted == ncclCommInitRankScalable { call.int("nId") } else { 1 }).collect()
}

fn sum<W: World>(comm: &Communicator<W>, own: usize) -> Result<usize> {
    let mut x = comm.device().from_slice(&[own as u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    Ok(x.to_vec()?[0] as usize)
}

/// Six, all made by rank 0.
fn ids() -> Vec<UniqueId> {
    let make = || {
        let ids = (0..6).map(|_| UniqueId::new().expect("it listens").to_bytes());
        ids.flatten().collect()
    };
    let ids = meet(number("RANK") == 0, make);
    let id = |bytes: &[u8]| UniqueId::from_bytes(bytes.try_into().expect("an id is so long"));
    ids.chunks(128).map(id).collect()
}

fn given() -> Result<()> {
    let (rank, ids) = (number("RANK"), ids());
    let device = || Cuda::any(number("LOCAL_RANK") as u32);
    // NCCL's blocks are ranks 0 and 1, rank 2, rank 3.
    let comm = Seat::with_ids(&ids[..3], rank, 4)?.init(device()?)?;
    let is_old =
        env::var_os(ENVIRONMENT).is_some_and(|path| path.to_string_lossy().contains("2.22"));
    let expected = if is_old { (vec![], vec![1]) } else { (vec![3], vec![]) };
    assert_eq!((calls(ncclCommInitRankScalable), calls(ncclCommInitRankConfig)), expected);
    assert_eq!(sum(&comm, rank)?, 6);
    comm.finish()?;

    // A single id works like `with_id`.
    let comm = Seat::with_ids(&ids[3..4], rank, 4)?.init(device()?)?;
    assert_eq!(calls(ncclCommInitRankConfig).len(), if is_old { 2 } else { 1 });
    comm.finish()?;

    let last = if rank == 2 { 3 } else { 5 };
    let error = Seat::with_ids(&[ids[4], ids[last]], rank, 4)?.init(device()?).map(drop);
    let error = error.expect_err("rank 2 gives another");
    assert!(matches!(error, Error::InitFailed(_)), "{error}");
    assert!(error.to_string().contains("ranks 0 and 2 give other ids"), "{error}");

    for (ids, words) in [
        (&ids[..0], "give one at least"),
        (&ids[..5], "5 ids are more than there are ranks"),
        (&[ids[0], ids[0]][..], "an id is there twice"),
    ] {
        let error = Seat::with_ids(ids, rank, 4).map(drop).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    Ok(())
}

/// They are threads of one process, each with its own connections to the others.
fn many() -> Result<()> {
    let id = UniqueId::new()?;
    let rank = |rank: usize| -> Result<()> {
        let comm = Seat::with_id(id, rank, MANY)?.init(Cuda::any(rank as u32)?)?;
        comm.barrier()?;
        assert_eq!(sum(&comm, rank)?, MANY * (MANY - 1) / 2);
        comm.finish()
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..MANY)
            .map(|one| {
                scope.spawn({
                    let rank = &rank;
                    move || rank(one)
                })
            })
            .collect();
        ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
    })?;
    assert_eq!(calls(ncclCommInitRankScalable), [2; MANY]);
    Ok(())
}
