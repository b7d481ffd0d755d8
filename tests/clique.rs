//! One thread that drives many ranks.

use proptest::prelude::*;
use typed_nccl::{
    Avg, CallConfig, Clique, CommConfig, Ctas, DeviceFamily, Error, Host, LocalOnly, Max, Numeric,
    ReduceOp, Result, Root, Seat, Signals, Sum, Symmetric, World, tag,
};

tag!(Pair);

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// The results of n threads.
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
    assert_eq!(clique.to_host(&all)?, [[0, 0, 1, 1, 2, 2]; 3]);
    clique.reduce_scatter_in_place(&mut all, Sum)?;
    let mut own = [[0, 0, 1, 1, 2, 2]; 3];
    for (rank, all) in own.iter_mut().enumerate() {
        all[2 * rank] *= 3;
        all[2 * rank + 1] *= 3;
    }
    assert_eq!(clique.to_host(&all)?, own);
    clique.all_gather_in_place(&mut all)?;
    assert_eq!(clique.to_host(&all)?, [[0, 0, 3, 3, 6, 6]; 3]);
    clique.reduce_in_place(&mut all, Max, 1)?;
    clique.barrier()?;
    clique.wait()?;
    clique.finish()
}

/// Each collective with a configuration, in one call and lane by lane.
#[test]
fn collectives_of_a_clique_are_configured() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[4, 0, 7])?)?;
    let one = clique.per_rank(|rank, d| d.from_slice(&[rank.index() as u64; 2]))?;
    let mut sum = clique.alloc::<u64>(2)?;
    let config = CallConfig::builder().ctas(Ctas::at_most(2)).profiler_tag(7).build();
    clique.with(&config).all_reduce(&one, &mut sum, Sum)?;
    assert_eq!(clique.to_host(&sum)?, [[3, 3]; 3]);
    clique.group(&mut sum, |lane, sum| lane.with(&config).all_reduce_in_place(sum, Max))?;
    assert_eq!(clique.to_host(&sum)?, [[3, 3]; 3]);
    let wide = CallConfig::builder().ctas(Ctas::between(2, 1)).build();
    let refused = clique.with(&wide).broadcast_in_place(&mut sum, 0).expect_err("out of range");
    says(&refused, &["broadcast with a `CallConfig` (at", "clique.rs:", "`Ctas::between(2, 1)`"]);
    clique.finish()
}

/// Resources of a clique work again after it is resumed.
#[test]
fn a_clique_is_suspended() -> Result<()> {
    let clique = Clique::init(Host::open_each(&[4, 0, 7])?)?;
    let mut x = clique.per_rank(|rank, d| d.from_slice(&[rank.index() as u64; 2]))?;
    clique.all_reduce_in_place(&mut x, Sum)?;
    let clique = clique.suspend()?;
    assert_eq!(clique.memory_stats()?.into_vec().len(), 3);
    let clique = clique.resume()?;
    clique.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(clique.to_host(&x)?, [[9, 9]; 3]);
    drop(clique.suspend()?);
    Ok(())
}

#[test]
fn an_estimate_of_a_clique_on_the_host() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[4, 0])?)?;
    let (x, mut y) = (clique.alloc::<f32>(2)?, clique.alloc::<f32>(2)?);
    let refused = clique.estimate(&mut y, |lane, y| lane.all_reduce_in_place(y, Sum));
    says(&refused.expect_err("it knows no times"), &["an estimate of a group needs NCCL on GPUs"]);
    let refused = clique.estimate((&x, &mut y), |lane, (x, y)| {
        lane.send(x, lane.ring(1))?;
        lane.recv(y, lane.ring(-1))
    });
    says(&refused.expect_err("not collectives"), &["collectives alone", "it has send of 2 f32"]);
    let refused = clique.estimate(&mut y, |lane, y| match lane.index() {
        0 => lane.all_reduce_in_place(y, Sum),
        _ => lane.all_reduce_in_place(y, Max),
    });
    assert!(matches!(refused, Err(Error::LanesDiffer(_))), "{refused:?}");
    clique.all_reduce_in_place(&mut y, Sum)?;
    clique.finish()
}

/// A group's methods also exist on its lanes: windows, operators, lengths and roots, on any stream.
#[test]
fn lanes_record_all_that_groups_do() -> Result<()> {
    let config = CommConfig::builder().signals(3).build();
    let mut clique = Clique::init_as::<Pair>(Host::open_each(&[4, 0, 7])?, config)?;
    let mut source = clique.window::<i32>(6)?;
    let ghost = clique.window::<i32>(6)?;
    let streams = clique.per_rank(|_, device| device.stream())?;
    let values = clique.per_rank(|rank, _| Ok(vec![rank.index() as i32 + 1; 6]))?;
    clique.each((&mut source, &values), |_, (mut window, values)| window.copy_from(values))?;
    let slots = clique.signal_in(0, 2)?;
    let arrivals = clique.per_rank(|rank, _| Ok(rank.index()))?.into_vec();
    assert_eq!(arrivals, [0, 1, 2]);
    for on_streams in [false, true] {
        let args = (&source, &ghost, &slots);
        match on_streams {
            false => clique.group(args, |lane, (source, ghost, &slot)| {
                let (left, right) = (lane.ring(-1), lane.ring(1));
                lane.put_signal(source.slice(0..3), right, ghost.at(0).raising(slot))?;
                lane.wait_signals(Signals::new().expect_in(left, slot, 1))
            })?,
            true => clique.group_on(&streams, args, |lane, (source, ghost, &slot)| {
                let (left, right) = (lane.ring(-1), lane.ring(1));
                lane.put_signal(source.slice(3..6), right, ghost.at(3).raising(slot))?;
                lane.signal(right)?;
                lane.wait_signals(Signals::new().expect_in(left, slot, 1).expect(left))
            })?,
        }
    }
    assert_eq!(clique.to_host(&ghost)?, [[3; 6], [1; 6], [2; 6]]);

    let ops = clique.pre_mul_sum(|rank| 10_i32.pow(rank.index() as u32))?;
    let blocks = clique.blocks(|rank| rank.index() + 1)?;
    let below = clique.blocks(|rank| 1 - rank.index() as i32).expect_err("rank 2 has -1");
    assert!(matches!(below, Error::BadBlockLen(bad) if bad.found == -1));
    let splits = clique.splits(|rank| vec![rank.index() as u16; 3])?;
    let (mut sum, mut all) = (clique.alloc::<i32>(6)?, clique.alloc::<i32>(6)?);
    let mut part = clique.per_rank(|rank, d| d.zeros::<i32>(rank.index() + 1))?;
    clique.group((&source, &mut sum, &ops), |lane, (source, sum, op)| {
        lane.all_reduce(source.local(), sum, op)
    })?;
    assert_eq!(clique.to_host(&sum)?, [[321; 6]; 3]);
    clique.group_on(&streams, (&sum, &mut part, &blocks), |lane, (sum, part, blocks)| {
        lane.reduce_scatter_v(sum, part, Max, blocks)
    })?;
    clique.group((&part, &mut all, &blocks), |lane, (part, all, blocks)| {
        lane.all_gather_v(part, all, blocks)
    })?;
    assert_eq!(clique.to_host(&all)?, [[321; 6]; 3]);
    clique.group((&all, &mut part, &blocks), |lane, (all, part, blocks)| {
        let root = (lane.index() == 2).then_some(all);
        lane.scatter_v(Root::here_or_at(root, 2), part, blocks)
    })?;
    clique.group((&part, &mut all, &blocks), |lane, (part, all, blocks)| {
        let root = (lane.index() == 1).then_some(all);
        lane.gather_v(part, Root::here_or_at(root, 1), blocks)
    })?;
    assert_eq!(clique.to_host(&all)?, [[321; 6]; 3]);
    let mut received = clique.alloc::<i32>(3)?;
    let sent =
        clique.per_rank(|rank, d| d.from_slice(&vec![rank.index() as i32; 3 * rank.index()]))?;
    clique.group((&sent, &mut received, &splits), |lane, (sent, received, splits)| {
        lane.all_to_all_v(sent, received, splits)
    })?;
    assert_eq!(clique.to_host(&received)?, [[1, 2, 2]; 3]);
    clique
        .group((&sum, &mut received), |lane, (sum, received)| {
            let root = lane.index() == 1;
            lane.scatter(Root::here_or_at(root.then(|| sum.slice(0..6)), 1), received)
        })
        .expect_err("2 for each rank, not 3");
    clique.group((&sum, &mut all), |lane, (sum, all)| {
        let root = lane.index() == 1;
        lane.gather_into(sum.slice(0..2), Root::here_or_at(root.then_some(all), 1))
    })?;
    let registered = clique.register_buffer(&sum)?;
    clique.all_reduce_in_place(&mut sum, Sum)?;
    clique.deregister_buffer(registered)?;
    let memory = clique.close(ghost)?;
    let mut again = clique.register_window(memory, LocalOnly)?;
    clique.all_reduce_in_place(&mut again, Sum)?;
    assert_eq!(clique.to_host(&again)?, [[6; 6]; 3]);
    clique.finish()
}

/// One thread calls for all ranks: calls that another thread would have to match are refused before
/// they block.
#[test]
fn lanes_that_do_not_match_are_refused() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1, 2])?)?;
    let (x, mut y) = (clique.alloc::<f32>(4)?, clique.alloc::<f32>(4)?);
    let error = clique.group(&mut y, |lane, y| match lane.index() {
        1 => Ok(()),
        _ => lane.all_reduce_in_place(y, Sum),
    });
    let error = error.expect_err("rank 1 records nothing");
    assert!(matches!(error, Error::LanesDiffer(_)), "{error}");
    let parts =
        ["rank 0 records all_reduce of 4 f32", "rank 1 records nothing", "nothing was sent"];
    says(&error, &parts);
    let error = clique.group((&x, &mut y), |lane, (x, y)| match lane.index() {
        0 => lane.all_reduce(x, y, Max),
        _ => lane.all_reduce(x, y, Sum),
    });
    says(&error.expect_err("they differ"), &["Max", "rank 1 records all_reduce of 4 f32, Sum"]);
    let error = clique.group((&x, &mut y), |lane, (x, y)| match lane.index() {
        0 => lane.send(x, 2),
        2 => lane.recv(y.into_slice(0..3), 0),
        _ => Ok(()),
    });
    says(
        &error.expect_err("4 and 3"),
        &["rank 0 records send of 4 f32", "rank 2 records recv of 3"],
    );
    let error = clique.group((&x, &mut y), |lane, (_, y)| match lane.index() {
        2 => lane.recv(y, 0),
        _ => Ok(()),
    });
    says(
        &error.expect_err("nobody sends"),
        &["rank 0 records nothing to match it, rank 2 records recv"],
    );
    clique.all_reduce(&x, &mut y, Sum)?;
    clique.wait()?;
    clique.finish()
}

#[test]
fn a_clique_is_split() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1, 2, 3, 4])?)?;
    // The even ranks in reverse, and the odd ones.
    let mut parts = clique.split::<Pair>(|rank| {
        let rank = rank.index();
        (rank as u32 % 2, if rank % 2 == 0 { -(rank as i64) } else { 0 })
    })?;
    assert_eq!(parts.iter().map(Clique::size).collect::<Vec<_>>(), [3, 2]);
    for part in &mut parts {
        let n = part.size();
        assert_eq!(
            ring(part, 2)?,
            (0..n).map(|r| [((r + n - 1) % n) as f32; 2]).collect::<Vec<_>>()
        );
    }
    let ordinals = parts[0].per_rank(|_, device| Ok(device.ordinal()))?;
    assert_eq!(ordinals.into_vec(), [4, 2, 0]);
    // A parent's value does not belong to the child.
    let x = clique.alloc::<f32>(2)?;
    assert!(matches!(parts[1].to_host(&x), Err(Error::OtherClique(_))));
    assert_eq!(ring(&mut clique, 1)?.len(), 5);
    parts.into_iter().try_for_each(Clique::finish)?;
    clique.finish()
}

#[test]
fn windows_of_a_clique_that_cannot_be() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let error = clique.window::<u64>(usize::MAX).expect_err("too much");
    says(&error, &["tests/clique.rs"]);
    // One rank's memory is on another device: both ranks get an error, and their memory back.
    let bad = clique.per_rank(|rank, device| match rank.index() {
        1 => Host::any(9)?.nccl_zeros::<f32>(8),
        _ => device.nccl_zeros(8),
    })?;
    let failed = clique.register_window(bad, Symmetric).expect_err("of another device");
    assert_eq!(failed.value.len(), 2);
    let window = clique.window::<f32>(8)?;
    let other = Clique::init(Host::open_each(&[0, 1])?)?;
    let mut other = other;
    let failed = other.close(window).expect_err("another clique's");
    assert!(matches!(failed.error, Error::OtherClique(_)));
    clique.close(failed.value)?;
    other.finish()?;
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
    clique.group((&mine, &mut theirs), |lane, (mine, theirs)| {
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
    // One lane fails: nothing is issued on any rank.
    let mut y = clique.alloc::<f32>(4)?;
    let error = clique.group((&x, &mut y), |lane, (x, y)| {
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

/// No half of a refused transfer waits for its other half, however wrong one half was.
#[test]
fn a_rank_that_does_not_exist_takes_no_turn_of_the_others() -> Result<()> {
    let config = CommConfig::builder().deadline(std::time::Duration::from_secs(20)).build();
    let mut clique = Clique::init_as::<Pair>(Host::open_each(&[0, 1, 2])?, config)?;
    let (mine, mut theirs) = (clique.alloc::<f32>(3)?, clique.alloc::<f32>(3)?);
    let error = clique.group((&mine, &mut theirs), |lane, (mine, theirs)| {
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
    // Rank 1's memory is elsewhere.
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
