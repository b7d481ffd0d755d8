//! The device API for closures on the host: an algorithm with barriers and peers' addresses runs
//! without a GPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use typed_nccl::{
    CommConfig, Communicator, DevComm, Error, Host, HostDevComm, HostWindow, Place, Requirements,
    Result, Scoped, Seat, Sum, kernel,
};

type Both<T> = (Communicator<Host<T>>, DevComm<Host<T>>);

fn with_dev<T>(place: Place<Host<T>>, barriers: u32) -> Result<Both<T>> {
    let config = CommConfig::builder().deadline(Duration::from_secs(20)).build();
    let (seat, device) = place.into_parts();
    let mut comm =
        Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
    let api = comm.device_api()?;
    let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(barriers))?;
    Ok((comm, dev))
}

/// Like a kernel: every rank sums its share of all parts, and writes it to all.
fn all_reduce(dev: &HostDevComm<'_>, window: &HostWindow<'_, f32>) {
    let (rank, size, len) = (dev.rank().index(), dev.size(), window.len());
    dev.lsa_barrier(0).sync();
    let share = len.div_ceil(size);
    let (from, to) = ((rank * share).min(len), ((rank + 1) * share).min(len));
    let mut sums = vec![0.0; to - from];
    for peer in 0..size {
        let theirs = window.peer(peer).to_vec(from..to);
        sums.iter_mut().zip(theirs).for_each(|(sum, x)| *sum += x);
    }
    dev.lsa_barrier(1).sync();
    for peer in 0..size {
        window.peer(peer).write(from, &sums);
    }
    dev.lsa_barrier(0).sync();
}

#[test]
fn an_all_reduce_written_by_hand_is_all_reduce() -> Result<()> {
    for size in 2..=8 {
        Host::spmd(size, |place| {
            let (mut comm, dev) = with_dev(place, 2)?;
            for len in [1, 7, 1000] {
                let rank = comm.rank().index();
                let values: Vec<f32> = (0..len).map(|i| (i * (rank + 1)) as f32 / 3.0).collect();
                let mut window = comm.window::<f32>(len)?;
                for round in 0..3 {
                    window.copy_from(&values)?;
                    comm.stream().launch((&dev, dev.peers(&window)), |(dev, window), ()| {
                        all_reduce(&dev, &window);
                    })?;
                    let mut theirs = comm.device().from_slice(&values)?;
                    comm.all_reduce_in_place(&mut theirs, Sum)?;
                    assert_eq!(window.to_vec()?, theirs.to_vec()?, "{size}, {len}, {round}");
                }
                comm.close(window)?;
            }
            comm.close_dev_comm(dev)?;
            comm.finish()
        })?;
    }
    Ok(())
}

kernel! {
    /// Writes this rank's part, late.
    fn fill(dev: &DevComm, to: &mut Window<f32>, by: f32);
    host {
        std::thread::sleep(Duration::from_millis(200));
        to.peer(dev.rank()).write(0, &[by; 4]);
    }
}

kernel! {
    /// Copies every rank's elements of one part to its place in the whole, on all ranks.
    fn gather(dev: &DevComm, at: Barrier, part: &WindowSlice<f32>, whole: &mut Window<f32>, to: usize);
    host {
        at.sync();
        for rank in 0..dev.size() {
            let theirs = part.peer(rank);
            let to = to + rank * theirs.len();
            whole.own().write(to, &theirs.to_vec(0..theirs.len()));
        }
        at.sync();
    }
}

/// A kernel gets a part of a window, the same one on every rank, and a barrier that knows its
/// communicator.
#[test]
fn parts_of_windows_and_barriers_are_arguments() -> Result<()> {
    Host::spmd(3, |place| {
        let (mut comm, dev) = with_dev(place, 3)?;
        let api = comm.device_api()?;
        let other = comm.dev_comm(&api, &Requirements::new().lsa_barriers(3))?;
        let rank = comm.rank().index() as f32;
        let (mut from, mut to) = (comm.window::<f32>(10)?, comm.window::<f32>(20)?);
        from.copy_from(&(0..10).map(|at| rank * 100.0 + at as f32).collect::<Vec<_>>())?;
        let at = dev.lsa_barrier(2)?;
        let part = from.slice(2..9).slice(1..5);
        comm.stream().run(gather(&dev, at, &part, &mut to, 8))?;
        let expected: Vec<_> = (0..20)
            .map(|at| match at {
                0..8 => 0.0,
                at => ((at - 8) / 4 * 100 + (at - 8) % 4 + 3) as f32,
            })
            .collect();
        assert_eq!(to.to_vec()?, expected);
        // The whole of one is a part.
        comm.stream().run(gather(&dev, at, &to.slice(0..2), &mut from, 0))?;
        assert_eq!(from.to_vec()?[..6], [0.0; 6]);

        let past = comm.stream().run(gather(&dev, at, &from.slice(8..11), &mut to, 0));
        assert!(matches!(past, Err(Error::BadRange(_))), "{past:?}");
        let theirs = other.lsa_barrier(2)?;
        let error = comm.stream().run(gather(&dev, theirs, &from.slice(0..1), &mut to, 0));
        let text = error.expect_err("another device communicator's").to_string();
        for part in ["`gather`", "barrier 2", "`dev.lsa_barrier(2)?`", "mirror.rs"] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        comm.close_dev_comm(other)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

kernel! {
    /// Every rank's number of elements in its part of an uneven window.
    fn lengths(dev: &DevComm, part: &WindowSlice<u32>, to: &mut [u32]);
    host {
        for (rank, to) in to.iter_mut().enumerate().take(dev.size()) {
            *to = part.peer(rank).len() as u32;
        }
    }
}

/// A rank with a shorter part of the window has fewer elements, or none, of a slice.
#[test]
fn a_part_of_uneven_windows_ends_where_a_rank_s_does() -> Result<()> {
    Host::spmd(3, |place| {
        let (mut comm, dev) = with_dev(place, 1)?;
        let window = comm.window_uneven::<u32>(10 - 4 * comm.rank().index())?;
        let mut to = comm.device().zeros::<u32>(3)?;
        let end = window.len();
        comm.stream().run(lengths(&dev, &window.slice(1..end), &mut to))?;
        let own = end as u32 - 1;
        assert_eq!(to.to_vec()?, [9, 5, 1].map(|len: u32| len.min(own)));
        comm.stream().run(lengths(&dev, &window, &mut to))?;
        assert_eq!(to.to_vec()?, [10, 6, 2].map(|len: u32| len.min(own + 1)));
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

/// A kernel's writes to a window are visible to later work on another stream.
#[test]
fn a_window_that_a_kernel_writes_is_written() -> Result<()> {
    Host::spmd(1, |place| {
        let (mut comm, dev) = with_dev(place, 1)?;
        let mut window = comm.window::<f32>(4)?;
        let mut x = comm.device().zeros::<f32>(4)?;
        comm.stream().run(fill(&dev, &mut window, 3.0))?;
        let other = comm.device().stream()?;
        other.launch((&window, &mut x), |(window, x), ()| x.copy_from_slice(window))?;
        assert_eq!(x.to_vec()?, [3.0; 4]);
        comm.close(window)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

#[test]
fn elements_of_peers_are_read_and_written() -> Result<()> {
    Host::spmd(4, |place| {
        let (mut comm, dev) = with_dev(place, 1)?;
        let window = comm.window_uneven::<u64>(2 + comm.rank().index())?;
        comm.stream().launch((&dev, dev.peers(&window)), |(dev, window), ()| {
            let rank = dev.rank().index();
            for peer in 0..dev.size() {
                let part = window.peer(peer);
                assert_eq!((part.len(), part.is_empty()), (2 + peer, false));
                if peer + 1 == dev.size() {
                    part.set(rank, rank as u64 + 10);
                }
            }
            dev.lsa_barrier(0).sync();
            assert_eq!(window.peer(3).get(rank), rank as u64 + 10);
        })?;
        let mine = window.to_vec()?;
        if comm.rank().index() == 3 {
            assert_eq!(mine, [10, 11, 12, 13, 0]);
        }
        comm.close(window)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

/// A flag in a peer's memory is seen while both closures run.
#[test]
fn closures_see_each_others_flags() -> Result<()> {
    Host::spmd(2, |place| {
        let (mut comm, dev) = with_dev(place, 0)?;
        let window = comm.window::<u32>(1)?;
        comm.stream().launch((&dev, dev.peers(&window)), |(dev, window), ()| {
            let other = 1 - dev.rank().index();
            window.peer(other).set(0, 7);
            while window.own().get(0) != 7 {
                std::thread::yield_now();
            }
        })?;
        assert_eq!(window.to_vec()?, [7]);
        comm.close(window)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

/// Ranks write one part and read it while others write: each reads one of the written values as a
/// whole.
#[test]
fn what_meets_in_a_part_is_never_torn() -> Result<()> {
    const LEN: usize = 1 << 19;
    Host::spmd(3, |place| {
        let (mut comm, dev) = with_dev(place, 0)?;
        let window = comm.window::<u32>(LEN)?;
        comm.stream().launch((&dev, dev.peers(&window)), |(dev, window), ()| {
            let (own, shared) = (dev.rank().index() as u32, window.peer(0));
            for turn in 0..40 {
                shared.write(0, &vec![own * 1000 + turn; LEN]);
                let found = shared.to_vec(0..LEN);
                assert!(found == vec![found[0]; LEN], "torn in turn {turn}");
            }
        })?;
        comm.sync(comm.stream())?;
        comm.close(window)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

#[test]
fn what_is_not_there_ends_the_closure() -> Result<()> {
    Host::spmd(2, |place| {
        let (mut comm, dev) = with_dev(place, 2)?;
        let window = comm.window::<u32>(4)?;
        let stream = comm.stream();
        type Wrong = fn(HostDevComm<'_>, HostWindow<'_, u32>);
        let wrongs: [(Wrong, &str); 4] = [
            (|dev, _| dev.lsa_barrier(2).sync(), "was not made with LSA barrier 2"),
            (|_, window| window.peer(2).set(0, 1), "peer: there is no rank 2"),
            (|_, window| window.own().set(4, 1), "the range 4..5 reaches past"),
            (|_, window| window.own().read(3, &mut [0; 2]), "the range 3..5 reaches past"),
        ];
        for (wrong, words) in wrongs {
            stream.launch((&dev, dev.peers(&window)), move |(dev, window), ()| {
                wrong(dev, window);
                unreachable!("it has ended");
            })?;
            let Err(error) = comm.sync(stream) else { panic!("no error: {words}") };
            assert!(error.to_string().contains(words), "{error}");
        }
        // The communicator is unharmed.
        stream.launch((&dev,), |(dev,), ()| dev.lsa_barrier(0).sync())?;
        comm.sync(stream)?;
        comm.close(window)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

#[test]
fn a_window_of_another_communicator_is_refused() -> Result<()> {
    let alone = || Seat::local(1).remove(0).init(Host::any(0)?);
    let (mut comm, mut other) = (alone()?, alone()?);
    let api = comm.device_api()?;
    let dev = comm.dev_comm(&api, &Requirements::new())?;
    let theirs = other.window::<u32>(4)?;
    let outcome = comm.stream().launch((dev.peers(&theirs),), |_, ()| {});
    let Err(Error::WrongCommunicator(wrong)) = &outcome else { panic!("{outcome:?}") };
    assert!(wrong.to_string().contains("a window of World#"), "{wrong}");
    other.finish()?;
    comm.finish()
}

/// The errors of the ranks of `size` when rank `size - 1` does not come to the barrier, where the
/// others wait for so long.
fn without_the_last<F>(size: usize, patience: Duration, last: F) -> Vec<String>
where
    F: for<'id> Fn(&mut Communicator<Host<Scoped<'id>>>, &DevComm<Host<Scoped<'id>>>) -> Result<()>
        + Sync,
{
    let (all_have_one, errors) = (Barrier::new(size), Mutex::new(vec![String::new(); size]));
    // Closures that come to the barrier.
    let arrived = Arc::new(AtomicUsize::new(0));
    let outcome = Host::spmd(size, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().deadline(Duration::from_secs(60)).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        let mut comm = comm.connect()?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(2))?;
        all_have_one.wait();
        let (rank, arrived) = (comm.rank().index(), arrived.clone());
        let outcome = match rank + 1 == size {
            true => last(&mut comm, &dev),
            false => {
                let all_arrive = arrived.clone();
                let launched = comm.stream().launch((&dev,), move |(dev,), ()| {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    dev.lsa_barrier(1).sync()
                });
                while all_arrive.load(Ordering::Relaxed) + 1 < size && comm.health().is_ok() {
                    std::thread::yield_now();
                }
                let comm = comm.within(patience);
                launched.and_then(|()| comm.sync(comm.stream()))
            }
        };
        errors.lock().expect("nobody panics")[rank] =
            outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
        outcome
    });
    assert!(outcome.is_err());
    errors.into_inner().expect("nobody panics")
}

#[test]
fn a_rank_that_never_launches_is_named_after_the_deadline() {
    let looked = AtomicUsize::new(0);
    let errors = without_the_last(3, Duration::from_secs(3), |comm, _| {
        // It is busy elsewhere, until the others have given up.
        while comm.health().is_ok() {
            std::thread::sleep(Duration::from_millis(5));
            if looked.fetch_add(1, Ordering::Relaxed) > 4000 {
                break;
            }
        }
        Ok(())
    });
    let error =
        errors.iter().find(|error| error.contains("LSA barrier 1")).expect("somebody is told");
    assert!(
        error.contains("arrived: 0 1; rank 2 has launched no closure that comes to it"),
        "{error}"
    );
}

#[test]
fn a_rank_that_waits_for_something_else_is_a_deadlock() {
    let errors = without_the_last(2, Duration::from_secs(60), |comm, _| {
        let mut x = comm.device().from_slice(&[1_f32])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())
    });
    assert!(errors.iter().all(|error| error.contains("LSA barrier 1")), "{errors:#?}");
    assert!(errors.iter().any(|error| error.contains("come to the same barriers")), "{errors:#?}");
}

#[test]
fn closures_at_two_barriers_wait_in_a_circle() {
    let errors = without_the_last(2, Duration::from_secs(60), |comm, dev| {
        comm.stream().launch((dev,), |(dev,), ()| dev.lsa_barrier(0).sync())?;
        comm.sync(comm.stream())
    });
    for error in &errors {
        assert!(error.contains("rank 0 and rank 1 wait for each other"), "{error}");
        assert!(
            error.contains("rank 0's closure waits at LSA barrier 1 for that of rank 1"),
            "{error}"
        );
        assert!(
            error.contains("rank 1's closure waits at LSA barrier 0 for that of rank 0"),
            "{error}"
        );
    }
}

#[test]
fn a_rank_that_leaves_is_told_at_the_barrier() {
    let errors = without_the_last(3, Duration::from_secs(60), |_, _| Err(Error::other("I am off")));
    for error in &errors[..2] {
        assert!(error.contains("rank 2"), "{error}");
    }
}

/// More closures wait at once than the machine has cores, and in sequence on separate streams.
#[test]
fn every_closure_at_a_barrier_has_a_worker() -> Result<()> {
    Host::spmd(8, |place| {
        let (mut comm, dev) = with_dev(place, 8)?;
        let streams = (0..8).map(|_| comm.device().stream()).collect::<Result<Vec<_>>>()?;
        // Each rank launches them in another order: they wait for each other, not for a turn.
        let rank = comm.rank().index();
        for step in 0..8 {
            let at = (rank + step) % 8;
            streams[at].launch((&dev,), move |(dev,), ()| dev.lsa_barrier(at as u32).sync())?;
        }
        for stream in &streams {
            comm.sync(stream)?;
        }
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

/// A closure queued for a barrier behind slow work is not a deadlock, whatever its rank waits for.
#[test]
fn a_closure_on_its_way_is_waited_for() -> Result<()> {
    Host::spmd(2, |place| {
        let (mut comm, dev) = with_dev(place, 1)?;
        let stream = comm.device().stream()?;
        let mut x = comm.device().from_slice(&[1_f32])?;
        if comm.rank().index() == 1 {
            stream.launch((), |(), ()| std::thread::sleep(Duration::from_millis(300)))?;
        }
        stream.launch((&dev,), |(dev,), ()| dev.lsa_barrier(0).sync())?;
        if comm.rank().index() == 0 {
            comm.sync(&stream)?;
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        // Rank 1 waits for rank 0, which waits at the barrier that rank 1's closure will reach.
        comm.sync(comm.stream())?;
        assert_eq!(x.to_vec()?, [2.0]);
        comm.sync(&stream)?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}
