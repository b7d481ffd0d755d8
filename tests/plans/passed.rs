//! Lengths of messages that each run passes.

use typed_nccl::error::ArgumentFault;
use typed_nccl::plan::{Call, Values, bind};
use typed_nccl::{Communicator, Error, Host, Result};

use crate::ranks::spmd;
use body::{MOST, dispatch};

#[path = "../passed/body.rs"]
mod body;

#[test]
fn each_run_has_its_own_counts() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        assert!(!body::runs(&mut comm, |run| run == 40)?);
        comm.finish()
    })
    .expect("what is dispatched arrives");
}

#[test]
fn a_rank_that_leaves_ends_the_others_runs() {
    let ended = Host::spmd(3, |place| {
        let mut comm = place.init()?;
        let is_last = comm.rank().index() == 2;
        let told = body::runs(&mut comm, |run| is_last && run == 3)?;
        comm.abort();
        Ok::<_, Error>(told)
    });
    assert_eq!(ended.expect("no other error"), [true, true, false]);
}

/// The error of this rank's run with these counts, and the buffers for it.
fn told(counts: &(impl Fn(usize) -> Vec<usize> + Sync)) -> Vec<std::result::Result<(), Error>> {
    let told = Host::spmd(2, |place| -> Result<std::result::Result<(), Error>> {
        let mut comm = place.init()?;
        let device = comm.device().clone();
        let params = dispatch::Params { most: MOST, counts: &[MOST, 3, MOST, MOST] };
        let mut dispatch = dispatch::bind::<u32, _>(&mut comm, params)?;
        let (tokens, mut inbox) = (device.zeros(2 * MOST)?, device.zeros(2 * MOST)?);
        let mut seen = [device.zeros(2 * MOST)?, device.zeros(2 * MOST)?];
        let mut run = |comm: &Communicator<_>, counts: &[usize]| {
            let buffers =
                dispatch::Buffers { tokens: &tokens, inbox: &mut inbox, seen: &mut seen, counts };
            let mut steps = dispatch.steps().keep(|_, _, _| Ok(()));
            dispatch.run(comm, buffers, &mut steps)
        };
        let rank = comm.rank().index();
        let told = run(&comm, &counts(rank)).and_then(|()| comm.sync(comm.stream()));
        let is_refused = matches!(told, Err(Error::BadArgument(_) | Error::Refused(_)));
        if is_refused {
            // Nothing is lost.
            comm.barrier()?;
            run(&comm, &[1, 2, 3, 4])?;
            comm.finish()?;
        }
        Ok(told)
    });
    told.expect("a refusal does no harm")
}

fn fault(told: &std::result::Result<(), Error>) -> (&str, &ArgumentFault) {
    match told {
        Err(Error::BadArgument(bad)) => (&bad.buffer, &bad.why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_than_the_plan_is_bound_for_is_refused() {
    let own = |rank: usize| if rank == 0 { vec![4, 4, 0, 0] } else { vec![4, 3, 0, 0] };
    let outcomes = told(&own);
    let most = ArgumentFault::Most { index: 1, found: 4, most: 3 };
    assert_eq!(fault(&outcomes[0]), ("counts", &most));
    let text = outcomes[0].as_ref().expect_err("refused").to_string();
    assert!(text.contains("`counts` [1] is 4, and the plan is bound for at most 3"), "{text}");
    assert!(matches!(outcomes[1], Err(Error::Refused(_))), "{:?}", outcomes[1]);
}

#[test]
fn another_number_of_counts_is_refused() {
    for outcome in told(&|_| vec![1; 3]) {
        assert_eq!(fault(&outcome), ("counts", &ArgumentFault::Numbers { found: 3, needed: 4 }));
    }
}

#[test]
fn counts_that_differ_between_ranks_are_a_mismatch() {
    let own = |rank: usize| if rank == 0 { vec![0, 2, 0, 0] } else { vec![0, 1, 0, 0] };
    for outcome in told(&own) {
        assert!(matches!(outcome, Err(Error::Mismatch(_))), "{outcome:?}");
    }
}

#[test]
fn counts_by_name() {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let device = comm.device().clone();
        let values = Values::new().number("most", 2).list("counts", &[2]).element::<u32>("T");
        let mut dispatch = bind(&mut comm, dispatch::plan(), &values)?;
        let (tokens, mut inbox) = (device.zeros::<u32>(2)?, device.zeros::<u32>(2)?);
        let mut seen = [device.zeros::<u32>(2)?, device.zeros::<u32>(2)?];
        let mut why = |passed: &[&str]| {
            let run = dispatch.on(&comm).read("tokens", &tokens).write("inbox", &mut inbox);
            let run = run.write("seen", &mut seen);
            let run = passed.iter().fold(run, |run, name| run.counts(name, &[1]));
            match run.run(&mut |_: &mut Call<'_, _>| Ok(())) {
                Err(Error::BadArgument(bad)) => Some(bad.why),
                Ok(()) => None,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(why(&["counts"]), None);
        assert_eq!(why(&[]), Some(ArgumentFault::Missing));
        assert_eq!(why(&["counts", "counts"]), Some(ArgumentFault::Twice));
        let known = vec!["counts".to_owned()];
        assert_eq!(why(&["sizes"]), Some(ArgumentFault::Unknown { known }));
        assert_eq!(why(&["counts"]), None);
        comm.finish()
    })
    .expect("a refusal does no harm");
}
