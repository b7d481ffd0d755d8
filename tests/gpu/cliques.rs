//! Cliques: one thread that drives all GPUs.

use typed_nccl::{
    AnyDevice, CallConfig, Clique, Ctas, Cuda, Error, Max, Result, Root, Signals, Sum, tag,
};

use crate::common::{gpu, ranks};
use crate::windows::one_sided;

tag!(Alone);

fn all() -> Result<Clique<Cuda<AnyDevice>>> {
    Clique::init((0..ranks()?).map(gpu).collect::<Result<_>>()?)
}

/// First operations connect ranks and block, so all ranks' calls are made at once.
pub(crate) fn everything_that_groups_do() -> Result<()> {
    let mut clique = all()?;
    let n = clique.size();
    let streams = clique.per_rank(|_, device| device.stream())?;
    let mut x = clique.per_rank(|rank, d| d.from_slice(&vec![rank.index() as i32 + 1; 6 * n]))?;
    let mut y = clique.alloc::<i32>(6 * n)?;
    clique.group_on(&streams, (&x, &mut y), |lane, (x, y)| {
        let (left, right) = (lane.ring(-1), lane.ring(1));
        lane.send(x, right)?;
        lane.recv(y, left)
    })?;
    let left = |rank: usize| ((rank + n - 1) % n) as i32 + 1;
    assert_eq!(clique.to_host(&y)?, (0..n).map(|r| vec![left(r); 6 * n]).collect::<Vec<_>>());
    let ops = clique.pre_mul_sum(|rank| 1 << rank.index())?;
    clique.group((&x, &mut y, &ops), |lane, (x, y, op)| lane.all_reduce(x, y, op))?;
    let scaled: i32 = (0..n as i32).map(|r| (r + 1) << r).sum();
    assert_eq!(clique.to_host(&y)?, vec![vec![scaled; 6 * n]; n]);
    let blocks = clique.blocks(|rank| 2 * rank.index() + 1)?;
    let mut part = clique.per_rank(|rank, d| d.zeros::<i32>(2 * rank.index() + 1))?;
    clique.group((&mut part, &x, &blocks), |lane, (part, x, blocks)| {
        lane.reduce_scatter_v(x.slice(0..blocks.total()), part, Max, blocks)
    })?;
    let most: Vec<_> = (0..n).map(|r| vec![n as i32; 2 * r + 1]).collect();
    assert_eq!(clique.to_host(&part)?, most);
    clique.group((&mut x, &y), |lane, (x, y)| {
        let root = lane.index() + 1 == lane.size();
        let last = lane.size() - 1;
        lane.broadcast(Root::here_or_at(root.then_some(y), last), x)
    })?;
    assert_eq!(clique.to_host(&x)?, vec![vec![scaled; 6 * n]; n]);
    clique.all_gather_in_place(&mut y)?;
    clique.reduce_scatter_in_place(&mut y, Sum)?;
    clique.reduce_in_place(&mut y, Sum, 0)?;
    clique.wait()?;
    clique.finish()
}

/// Windows of all ranks, which register them at once.
pub(crate) fn windows_of_a_clique() -> Result<()> {
    let one_sided = one_sided()?;
    let mut clique = all()?;
    let n = clique.size();
    let mut source = clique.window::<u32>(1 << 16)?;
    let ghost = clique.window::<u32>(1 << 16)?;
    let values = clique.per_rank(|rank, _| Ok(vec![rank.index() as u32; 1 << 16]))?;
    clique.each((&mut source, &values), |_, (mut source, values)| source.copy_from(values))?;
    if one_sided {
        for half in [0..1 << 15, 1 << 15..1 << 16] {
            clique.group((&source, &ghost), |lane, (source, ghost)| {
                let (left, right) = (lane.ring(-1), lane.ring(1));
                lane.put_signal(source.slice(half.clone()), right, ghost.at(half.start))?;
                lane.wait_signals(Signals::new().expect(left))
            })?;
        }
        let left = |rank: usize| ((rank + n - 1) % n) as u32;
        let expected: Vec<_> = (0..n).map(|r| vec![left(r); 1 << 16]).collect();
        assert_eq!(clique.to_host(&ghost)?, expected);
    }
    clique.all_reduce_in_place(&mut source, Sum)?;
    assert_eq!(clique.to_host(&source)?, vec![vec![(0..n as u32).sum::<u32>(); 1 << 16]; n]);
    let memory = clique.close(ghost)?;
    assert_eq!(memory.len(), n);
    clique.finish()
}

/// Children are cliques of their own, and outlive the parent.
pub(crate) fn a_clique_is_split() -> Result<()> {
    let mut clique = all()?;
    let n = clique.size();
    let backwards = clique.split::<Alone>(|rank| (0, -(rank.index() as i64)))?.remove(0);
    let singles = clique.split::<Alone>(|rank| (rank.index() as u32, 0))?;
    assert_eq!((backwards.size(), singles.len()), (n, n));
    clique.finish()?;
    let own = backwards.per_rank(|rank, d| d.from_slice(&[rank.index() as u64; 3]))?;
    let mut gathered = backwards.alloc::<u64>(3 * n)?;
    backwards.all_gather(&own, &mut gathered)?;
    let expected: Vec<u64> = (0..n as u64).flat_map(|r| [r; 3]).collect();
    assert_eq!(backwards.to_host(&gathered)?, vec![expected; n]);
    singles.into_iter().try_for_each(Clique::finish)?;
    backwards.finish()
}

/// Configured collectives, an estimate, and a suspension of all ranks; missing features of the
/// release are reported.
pub(crate) fn tuned_estimated_and_suspended() -> Result<()> {
    fn offered<R>(outcome: Result<R>) -> Result<Option<R>> {
        match outcome {
            Err(Error::Unsupported(lacks)) => {
                println!("SKIPPED: {lacks}");
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }
    let mut clique = all()?;
    let n = clique.size() as u64;
    let one = clique.per_rank(|rank, d| d.from_slice(&vec![rank.index() as u64; 1 << 18]))?;
    let mut sum = clique.alloc::<u64>(1 << 18)?;
    let sums = |clique: &Clique<_>, sum: &_| -> Result<()> {
        let expected = n * (n - 1) / 2;
        let found = clique.to_host(sum)?;
        assert!(found.len() == n as usize && found.iter().flatten().all(|&x| x == expected));
        Ok(())
    };
    let config = CallConfig::builder().ctas(Ctas::at_most(2)).build();
    if offered(clique.with(&config).all_reduce(&one, &mut sum, Sum))?.is_some() {
        sums(&clique, &sum)?;
    }
    let estimate = clique.estimate(&mut sum, |lane, sum| lane.all_reduce_in_place(sum, Max));
    if let Some(time) = offered(estimate)? {
        println!("estimated: {time:?}");
        assert!(n == 1 || !time.is_zero());
    }
    clique.all_reduce(&one, &mut sum, Sum)?;
    sums(&clique, &sum)?;
    if offered(clique.memory_stats())?.is_none() {
        return clique.finish();
    }
    let paused = clique.suspend()?;
    for stats in paused.memory_stats()?.into_vec() {
        assert_eq!(stats.held, stats.persistent, "{stats}");
    }
    let clique = paused.resume()?;
    clique.all_reduce(&one, &mut sum, Sum)?;
    sums(&clique, &sum)?;
    clique.finish()
}
