//! Ranks that are killed while they communicate.

use std::env;

use typed_nccl::{AnyDevice, Communicator, Cuda, Error, Rank, Result, Seat, Sum};

use crate::machine::Test;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a_rank_that_is_killed_is_named",
    program: || {
        let gpu = env::var("LOCAL_RANK").expect("it is a rank").parse().expect("a number");
        sums(Seat::from_env()?.init(Cuda::any(gpu)?)?)
    },
    test: |run| {
        let mut ranks = run.ranks(3);
        ranks.hears(1, "it goes well");
        ranks.kill(1);
        let ended = ranks.ended();
        let well: Vec<bool> = ended.iter().map(|ended| ended.status.success()).collect();
        assert_eq!(well, [true, false, true], "{ended:?}");
    },
}];

/// Adds until somebody is gone.
fn sums(comm: Communicator<Cuda<AnyDevice>>) -> Result<()> {
    let x = comm.device().from_slice(&[1_i32; 1000])?;
    let mut sum = comm.device().zeros::<i32>(1000)?;
    for round in 0.. {
        let found = comm.all_reduce(&x, &mut sum, Sum).and_then(|()| sum.to_vec());
        match found {
            Ok(found) => assert_eq!(found, [comm.size() as i32; 1000]),
            Err(error) => {
                let Error::PeerFailed(failed) = &error else { panic!("{error}") };
                assert_eq!(failed.lost, [Rank::from_index(1)], "{error}");
                return Ok(());
            }
        }
        if round == 20 {
            println!("it goes well");
        }
    }
    Ok(())
}
