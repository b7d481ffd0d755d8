//! Lengths of messages that each run passes.

use typed_nccl::error::ArgumentFault;
use typed_nccl::plan::{Call, Values, bind};
use typed_nccl::{Buffer, Communicator, Error, Host, Result, World, plan};

use crate::ranks::spmd;

plan! {
    /// Each rank sends every other one as many as `counts` says, row by row.
    dispatch<T: Element>(n: Ranks, most: usize, run counts: [usize; n * n])
    where
        for i in 0..n * n { counts[i] <= most },
    {
        in tokens: [T; n * most];
        inout inbox: [T; n * most];
        inout seen[i in 0..2]: [T; n * most];
        stream net, compute;
        group {
            for by in 0..n {
                let to = (rank + by) % n;
                let from = (rank - by) % n;
                send tokens[to * most..to * most + counts[rank * n + to]] to rank(to);
                recv inbox[from * most..from * most + counts[from * n + rank]] from rank(from);
            }
        } on net;
        run keep(read inbox, write seen[1]) on compute;
        send inbox[..counts[(rank - 1) % n * n + rank]] to (rank - 1) % n
            into seen[0][..counts[(rank - 1) % n * n + rank]] on net;
    }
}

const RANKS: usize = 3;
const MOST: usize = 4;

type Arrived<D> = [Buffer<u32, D>; 2];

fn bound<W: World>(comm: &mut Communicator<W>) -> Result<dispatch::Bound<u32, W>> {
    let params = dispatch::Params { most: MOST, counts: &[MOST; RANKS * RANKS] };
    dispatch::bind::<u32, _>(comm, params)
}

/// What rank `from` sends to rank `to` in this run.
fn token(run: usize, from: usize, to: usize) -> u32 {
    (1000 * run + 10 * from + to) as u32
}

#[test]
fn each_run_has_its_own_counts() {
    spmd::<Host>(RANKS, |place| {
        let mut comm = place.init()?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let mut dispatch = bound(&mut comm)?;
        let mut inbox = device.zeros(RANKS * MOST)?;
        let mut seen: Arrived<_> = [device.zeros(RANKS * MOST)?, device.zeros(RANKS * MOST)?];
        let mut expected = [0; RANKS * MOST];
        for run in 0..40 {
            // From none to the most, for each pair its own.
            let count = |from: usize, to: usize| (7 * run + 3 * from + 5 * to) % (MOST + 1);
            let pairs = (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to)));
            let counts: Vec<usize> = pairs
                .map(|(from, to)| match from == rank || to == rank {
                    true => count(from, to),
                    // Nobody asks a rank for what others send each other.
                    false => 0,
                })
                .collect();
            let tokens: Vec<u32> =
                (0..RANKS * MOST).map(|at| token(run, rank, at / MOST)).collect();
            let tokens = device.from_slice(&tokens)?;
            let buffers = dispatch::Buffers {
                tokens: &tokens,
                inbox: &mut inbox,
                seen: &mut seen,
                counts: &counts,
            };
            let mut steps = dispatch.steps().keep(|inbox, mut seen, stream| {
                stream.launch((&inbox, &mut seen), |(inbox, seen), ()| seen.copy_from_slice(inbox))
            });
            dispatch.run(&comm, buffers, &mut steps)?;
            for from in 0..RANKS {
                let begin = from * MOST;
                expected[begin..begin + count(from, rank)].fill(token(run, from, rank));
            }
            assert_eq!(inbox.to_vec()?, expected, "run {run}");
            assert_eq!(seen[1].to_vec()?, expected, "run {run}");
        }
        comm.finish()
    })
    .expect("what is dispatched arrives");
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
