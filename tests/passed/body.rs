//! A plan whose messages have other lengths in each run, wherever its ranks are.

use typed_nccl::{Buffer, Communicator, Device, Error, Result, plan};

plan! {
    /// Each rank sends every other one as many as `counts` says, row by row.
    pub dispatch<T: Element>(n: Ranks, most: usize, run counts: [usize; n * n])
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

/// The most that a rank sends another one.
pub(crate) const MOST: usize = 4;

type Arrived<D> = [Buffer<u32, D>; 2];

/// What rank `from` sends to rank `to` in this run.
fn token(run: usize, from: usize, to: usize) -> u32 {
    (1000 * run + 10 * from + to) as u32
}

/// From none to the most, for each pair its own.
fn count(run: usize, from: usize, to: usize) -> usize {
    (7 * run + 3 * from + 5 * to) % (MOST + 1)
}

/// Runs the plan until `ends` says so, or another rank has failed; says whether one has.
pub(crate) fn runs<D: Device>(
    comm: &mut Communicator<D>,
    mut ends: impl FnMut(usize) -> bool,
) -> Result<bool> {
    let (rank, n, device) = (comm.rank().index(), comm.size(), comm.device().clone());
    let most = vec![MOST; n * n];
    let params = dispatch::Params { most: MOST, counts: &most };
    let mut dispatch = dispatch::bind::<u32, _>(comm, params)?;
    let mut inbox = device.zeros(n * MOST)?;
    let mut seen: Arrived<D> = [device.zeros(n * MOST)?, device.zeros(n * MOST)?];
    let mut expected = vec![0; n * MOST];
    for run in 0.. {
        if ends(run) {
            break;
        }
        let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        let counts: Vec<usize> = pairs
            .map(|(from, to)| match from == rank || to == rank {
                true => count(run, from, to),
                // Nobody asks a rank for what others send each other.
                false => 0,
            })
            .collect();
        let tokens: Vec<u32> = (0..n * MOST).map(|at| token(run, rank, at / MOST)).collect();
        let tokens = device.from_slice(&tokens)?;
        let buffers = dispatch::Buffers {
            tokens: &tokens,
            inbox: &mut inbox,
            seen: &mut seen,
            counts: &counts,
        };
        let mut steps =
            dispatch.steps().keep(|inbox, mut seen, stream| stream.copy(&inbox, &mut seen));
        let ran = dispatch.run(comm, buffers, &mut steps);
        let found = ran.and_then(|()| Ok([inbox.to_vec()?, seen[1].to_vec()?]));
        for from in 0..n {
            let begin = from * MOST;
            expected[begin..begin + count(run, from, rank)].fill(token(run, from, rank));
        }
        match found {
            Ok(found) => assert_eq!(found, [expected.clone(), expected.clone()], "run {run}"),
            Err(Error::PeerFailed(_)) => return Ok(true),
            Err(other) => return Err(other),
        }
    }
    Ok(false)
}
