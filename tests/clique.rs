//! One thread that drives many ranks.

use proptest::prelude::*;
use typed_nccl::{
    Avg, Clique, CommConfig, DeviceFamily, Error, Host, Max, Numeric, ReduceOp, Result, Seat, Sum,
    World, tag,
};

tag!(Pair);

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// What n threads give.
fn by_threads<T: Numeric>(
    values: &[Vec<T>],
    op: impl ReduceOp<T, Host<typed_nccl::AnyDevice>> + Copy + Send,
) -> Vec<Vec<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = Seat::local(values.len())
            .into_iter()
            .zip(values)
            .map(|(seat, values)| {
                scope.spawn(move || -> Result<Vec<T>> {
                    let device = Host::any(seat.rank().index() as u32)?;
                    let comm = seat.init(device)?;
                    let mut x = comm.device().from_slice(values)?;
                    comm.all_reduce_in_place(&mut x, op)?;
                    let out = x.to_vec()?;
                    comm.finish()?;
                    Ok(out)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|t| t.join().expect("no panic").expect("no error"));
        joined.collect()
    })
}

fn by_clique<T: Numeric>(
    values: &[Vec<T>],
    op: impl ReduceOp<T, Host<typed_nccl::AnyDevice>> + Copy,
) -> Result<Vec<Vec<T>>> {
    let devices: Vec<u32> = (0..values.len() as u32).map(|i| 3 * i).collect();
    let clique = Clique::init(Host::open_each(&devices)?)?;
    let mut x = clique.per_rank(|rank, device| device.from_slice(&values[rank.index()]))?;
    clique.all_reduce_in_place(&mut x, op)?;
    let out = clique.to_host(&x)?;
    clique.finish()?;
    Ok(out)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn a_clique_of_n_gives_what_n_threads_give(
        (n, len, seed) in (1..=8_usize, 0..200_usize, any::<u32>()),
    ) {
        let value = |rank: usize, i: usize| (seed as usize ^ (rank * 31 + i * 7)) % 1000;
        let floats: Vec<Vec<f32>> =
            (0..n).map(|r| (0..len).map(|i| value(r, i) as f32 / 7.0).collect()).collect();
        let ints: Vec<Vec<i32>> =
            (0..n).map(|r| (0..len).map(|i| value(r, i) as i32).collect()).collect();
        prop_assert_eq!(by_clique(&floats, Sum).expect("no error"), by_threads(&floats, Sum));
        prop_assert_eq!(by_clique(&floats, Avg).expect("no error"), by_threads(&floats, Avg));
        prop_assert_eq!(by_clique(&ints, Max).expect("no error"), by_threads(&ints, Max));
    }
}

#[test]
fn every_collective_of_a_clique() -> Result<()> {
    let clique = Clique::init(Host::open_each(&[4, 0, 7])?)?;
    let one = clique.per_rank(|rank, d| d.from_slice(&[rank.index() as u64; 2]))?;
    let (mut all, mut sum) = (clique.alloc::<u64>(6)?, clique.alloc::<u64>(2)?);
    clique.all_gather(&one, &mut all)?;
    assert_eq!(clique.to_host(&all)?[1], [0, 0, 1, 1, 2, 2]);
    clique.reduce_scatter(&all, &mut sum, Sum)?;
    assert_eq!(clique.to_host(&sum)?, [[0, 0], [3, 3], [6, 6]]);
    clique.all_reduce(&one, &mut sum, Sum)?;
    assert_eq!(clique.to_host(&sum)?, [[3, 3]; 3]);
    let mut back = clique.alloc::<u64>(6)?;
    clique.all_to_all(&all, &mut back)?;
    assert_eq!(clique.to_host(&back)?[2], [2, 2, 2, 2, 2, 2]);
    clique.broadcast_in_place(&mut all, 2)?;
    clique.wait()?;
    clique.finish()
}

/// A library function over any clique whose device hands out lanes.
fn ring<W: World>(clique: &mut Clique<W>, len: usize) -> Result<Vec<Vec<f32>>>
where
    W::Device: DeviceFamily,
{
    let mut mine = clique.alloc::<f32>(len)?;
    clique.each(&mut mine, |lane, mut x| x.copy_from(&vec![lane.index() as f32; x.len()]))?;
    let mut theirs = clique.alloc::<f32>(len)?;
    clique.group((&mine, &mut theirs), |mut lane, (mine, theirs)| {
        let (left, right) = (lane.ring(-1), lane.ring(1));
        lane.send(mine, right)?;
        lane.recv(theirs, left)
    })?;
    clique.to_host(&theirs)
}

#[test]
fn lanes_record_what_differs_by_rank() -> Result<()> {
    for n in [1, 2, 5] {
        let devices: Vec<u32> = (0..n).collect();
        let config = CommConfig::builder().contexts(1).build();
        let mut clique = Clique::init_as::<Pair>(Host::open_each(&devices)?, config)?;
        let found = ring(&mut clique, 3)?;
        let expected: Vec<_> = (0..n).map(|r| vec![((r + n - 1) % n) as f32; 3]).collect();
        assert_eq!(found, expected);
        clique.finish()?;
    }
    Ok(())
}

#[test]
fn what_is_refused_is_refused_on_every_rank_and_the_clique_goes_on() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let other = Clique::init(Host::open_each(&[0, 1])?)?;
    let mut x = clique.alloc::<f32>(4)?;
    let mut short = clique.per_rank(|rank, d| d.zeros::<f32>(4 + rank.index()))?;
    let error = clique.all_reduce(&x, &mut short, Sum).expect_err("rank 1's is longer");
    says(&error, &["all_reduce: the receive buffer holds 5 f32", "tests/clique.rs:"]);
    let mut foreign = other.alloc::<f32>(4)?;
    let error = clique.all_reduce_in_place(&mut foreign, Sum).expect_err("another's");
    says(&error, &["per-rank values of another clique", "`alloc` or `per_rank`"]);
    let error = clique.group((&x, &mut foreign), |_, _| Ok(())).expect_err("one is another's");
    assert!(matches!(error, Error::OtherClique(_)));
    let error = clique.each(&x, |mut lane, x| lane.send(x, 0)).expect_err("nothing records");
    says(&error, &["send in `clique.each` would wait", "clique.group"]);
    // One lane fails: nothing is issued on any rank.
    let mut y = clique.alloc::<f32>(4)?;
    let error = clique.group((&x, &mut y), |mut lane, (x, y)| {
        lane.send(x, lane.ring(1))?;
        lane.recv(y, if lane.index() == 1 { 9 } else { 1 })
    });
    says(&error.expect_err("no rank 9"), &["recv: there is no rank 9"]);
    clique.wait()?;
    clique.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(clique.to_host(&x)?, [[0.0; 4]; 2]);
    assert!(matches!(Clique::init(Host::open_each(&[3, 3])?), Err(Error::InitFailed(_))));
    other.finish()?;
    clique.finish()
}

/// No half of what was refused waits for its other half, however wrong the one was.
#[test]
fn a_rank_that_does_not_exist_takes_no_turn_of_the_others() -> Result<()> {
    let config = CommConfig::builder().deadline(std::time::Duration::from_secs(20)).build();
    let mut clique = Clique::init_as::<Pair>(Host::open_each(&[0, 1, 2])?, config)?;
    let (mine, mut theirs) = (clique.alloc::<f32>(3)?, clique.alloc::<f32>(3)?);
    let error = clique.group((&mine, &mut theirs), |mut lane, (mine, theirs)| {
        let (left, right) = (lane.ring(-1), lane.ring(1));
        let to = if lane.index() == 1 { 7 } else { right.index() };
        lane.send(mine, to)?;
        lane.recv(theirs, left)
    });
    assert!(matches!(error, Err(Error::NoSuchRank(_))), "{error:?}");
    assert_eq!(ring(&mut clique, 3)?, [[2.0; 3], [0.0; 3], [1.0; 3]]);
    clique.finish()
}

#[test]
fn memory_of_another_device_is_refused_on_every_rank_and_the_clique_goes_on() -> Result<()> {
    let clique = Clique::init(Host::open_each(&[0, 1, 2])?)?;
    let mut good = clique.alloc::<f32>(8)?;
    // Rank 1's is elsewhere.
    let mut bad = clique.per_rank(|rank, device| match rank.index() {
        1 => Host::any(9)?.zeros::<f32>(8),
        _ => device.zeros(8),
    })?;
    for _ in 0..3 {
        let error = clique.all_reduce_in_place(&mut bad, Sum).expect_err("of another device");
        assert!(matches!(error, Error::OtherDevice(_)), "{error}");
        clique.all_reduce_in_place(&mut good, Sum)?;
        clique.wait()?;
    }
    clique.finish()
}

#[test]
fn memory_that_cannot_be_had_names_the_callers_line() -> Result<()> {
    let clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let error = clique.alloc::<u64>(usize::MAX).map(drop).expect_err("too much");
    says(&error, &["tests/clique.rs"]);
    clique.finish()
}
