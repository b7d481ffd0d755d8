//! Windows in parts of one allocation.

use std::sync::mpsc::channel;

use typed_nccl::error::{AdoptFault, WindowFault};
use typed_nccl::interop::Tensor;
use typed_nccl::{Buffer, Device, DeviceMem, Error, Host, Result, Sum, tag};

use crate::ranks::spmd;

use super::says;

tag!(Others);

#[path = "parts_body.rs"]
mod body;

/// Elements of 4 bytes up to where the next window can begin.
const PAGE: usize = 1024;

#[test]
fn every_part_is_a_window_of_its_own() -> Result<()> {
    for ranks in [1, 2, 3] {
        spmd::<Host>(ranks, |place| body::windows(place.init()?))?;
    }
    Ok(())
}

#[test]
fn parts_are_in_windows_of_two_communicators() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (rank, peer) = (comm.rank().index() as u32, comm.ring(1));
        let mut others = comm.split::<Others>(0, 0)?;
        let memory = comm.device().nccl_zeros::<u32>(3 * PAGE)?;
        let (first, rest) = memory.split_at(PAGE)?;
        let (second, third) = rest.split_at(PAGE)?;
        let mut first = comm.register_window(first)?;
        let second = others.register_window(second)?;
        // A part is registered beside its neighbours' windows, of their communicators too.
        let shared = second.also_in(&mut comm)?;
        first.copy_from(&[10 + rank; PAGE])?;
        comm.put_signal(first.slice(..4), peer, shared.at(0))?;
        comm.wait_signal(peer)?;
        others.put_signal(second.slice(..4), peer, second.at(4))?;
        others.wait_signal(peer)?;
        assert_eq!(second.to_vec()?[..8], [[10 + (rank ^ 1); 4], [10 + rank; 4]].concat());
        comm.barrier()?;

        // The allocation goes on after the part, and a put does not.
        let outside = comm.put_signal(first.slice(..2), peer, shared.at(PAGE - 1));
        assert!(matches!(outside, Err(Error::OutsideWindow(_))), "{outside:?}");
        comm.wait_signal(peer)?;
        assert!(matches!(comm.sync(comm.stream()), Err(Error::Refused(_))));
        comm.barrier()?;

        // One communicator ends with its window; the other parts stay what they were.
        comm.close_shared(shared)?;
        others.finish()?;
        drop(second);
        assert_eq!(first.to_vec()?, [10 + rank; PAGE]);
        assert_eq!(third.to_vec()?, [0; PAGE]);
        let third = comm.register_window(third)?;
        comm.put_signal(first.slice(..4), peer, third.at(0))?;
        comm.wait_signal(peer)?;
        assert_eq!(
            comm.close(third)?.to_vec()?[..5],
            [[10 + (rank ^ 1); 4].as_slice(), &[0]].concat()
        );
        comm.finish()
    })
}

#[test]
fn a_window_begins_where_nccls_can_and_where_the_peers_do() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index();
        // Rank 1 cuts between two places.
        let cut = if rank == 0 { PAGE } else { PAGE + 3 };
        let (_padding, part) = comm.device().nccl_zeros::<u32>(4 * PAGE)?.split_at(cut)?;
        let error = comm.register_window(part).expect_err("rank 1's is not aligned");
        match rank {
            0 => says(&error, &["rank 1 could not: register_window: the memory begins 4108 bytes"]),
            _ => {
                says(
                    &error,
                    &["begins 4108 bytes into its allocation (at tests/windows/parts.rs:"],
                );
                says(&error, &["cut it where one begins, the next 4084 bytes further on"]);
                let Error::BadWindow(bad) = &error else { panic!("{error}") };
                assert_eq!(bad.fault, WindowFault::Misaligned { before: 4108 });
            }
        }
        // Each could be a window, but NCCL would put next to the peer's.
        let memory = comm.device().nccl_zeros::<u32>(4 * PAGE)?;
        let (_padding, part) = memory.split_at((1 + rank) * PAGE)?;
        let (part, _) = part.split_at(8)?;
        let error = comm.register_window(part).expect_err("they begin elsewhere");
        says(&error, &["rank 0 registered 8 u32, Symmetric, 4096 bytes into its allocation"]);
        says(&error, &["rank 1 registered 8 u32, Symmetric, 8192 bytes into its allocation"]);
        // A part of a part counts from the start of the allocation, and comes back when refused.
        let (_, part) = comm.device().nccl_zeros::<u32>(2 * PAGE)?.split_at(PAGE / 2)?;
        let (_, part) = part.split_at(1)?;
        let failed = comm.try_register_window_as(part, typed_nccl::LocalOnly);
        let (_, part) = failed.expect_err("2052 bytes").value.split_at(PAGE / 2 - 1)?;
        let window = comm.register_window(part)?;
        assert_eq!(window.len(), PAGE);
        comm.finish()
    })
}

/// The peer is gone while both parts are in windows: each comes back, and goes on by itself.
#[test]
fn parts_outlive_a_peer() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (first, second) = comm.device().nccl_zeros::<u32>(2 * PAGE)?.split_at(PAGE)?;
        let mut first = comm.register_window(first)?;
        let second = comm.register_window(second)?;
        first.copy_from(&[7; PAGE])?;
        comm.put_signal(first.slice(..4), comm.ring(1), second.at(0))?;
        comm.wait_signal(comm.ring(1))?;
        assert_eq!(second.to_vec()?[..5], [7, 7, 7, 7, 0]);
        comm.barrier()?;
        if comm.rank().index() == 1 {
            return Ok(()); // it drops the communicator, and both windows
        }
        while comm.barrier().is_ok() {}
        comm.recover()?;
        // A put of the peer may still write it, under the locks of the whole.
        let failed = comm.close(second)?.split_at(4).expect_err("its communicator failed");
        says(&failed.error, &["split_at", "a communicator that failed", "keep it whole"]);
        // Nor can another library have it, whose uses know no such locks.
        let failed = Tensor::export(failed.value.into_dyn(), &[PAGE], None).expect_err("likewise");
        says(&failed.error, &["export", "a communicator that failed", "copy it"]);
        let mut second = failed.value.typed::<u32>()?;
        let first = comm.close(first)?;
        let refused = comm.pre_mul_sum_device(first).map(drop).expect_err("likewise");
        says(&refused, &["pre_mul_sum_device", "a communicator that failed", "copy it"]);
        assert_eq!(second.to_vec()?[..5], [7, 7, 7, 7, 0]);
        comm.all_reduce_in_place(&mut second, Sum)?;
        comm.finish()
    })
}

/// Memory that something names stays whole, and comes back.
#[test]
fn memory_that_is_named_stays_whole() -> Result<()> {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        fn refused<D: Device, M: typed_nccl::MemoryKind>(
            x: Buffer<f32, D, M>,
            by: &str,
        ) -> Buffer<f32, D, M> {
            let failed = x.split_at(2).expect_err("it is named");
            says(&failed.error, &["split_at", "in use by", by, "end that first", "parts.rs:"]);
            let Error::NotAdoptable(not) = &failed.error else { panic!("{}", failed.error) };
            assert!(matches!(not.fault, AdoptFault::InUse { .. }));
            failed.value
        }
        let x = comm.device().nccl_zeros::<f32>(8)?;
        let registration = comm.register_buffer(&x.slice(1..2))?;
        let x = refused(x, "`comm.deregister_buffer(registration)`");
        comm.deregister_buffer(registration)?;
        let (mut x, _) = x.split_at(8)?;
        let graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        let x = refused(x, "a graph that captured it");
        drop(graph);
        // One window of it is closed, and one of another communicator is not.
        let mut others = comm.split::<Others>(0, 0)?;
        let window = comm.register_window(x)?;
        let shared = window.also_in(&mut others)?;
        let x = refused(comm.close(window)?, "a window of another communicator");
        let scalar = others.register_window(comm.device().nccl_zeros::<f32>(1)?)?;
        let in_both = scalar.also_in(&mut comm)?;
        let refused =
            others.close(scalar).and_then(|scalar| comm.pre_mul_sum_device(scalar)).map(drop);
        let text = refused.expect_err("peers put into it").to_string();
        assert!(
            text.contains("pre_mul_sum_device") && text.contains("in use by a window"),
            "{text}"
        );
        comm.close_shared(in_both)?;
        others.close_shared(shared)?;
        let failed = x.split_at(9).expect_err("it has 8");
        says(
            &failed.error,
            &["0..9 reaches past a buffer of 8 elements (at tests/windows/parts.rs"],
        );
        let (all, none) = failed.value.split_at(8)?;
        assert_eq!((all.len(), none.len(), none.to_vec()?), (8, 0, vec![]));
        others.finish()?;
        comm.finish()
    })
}

/// A part waits for what was enqueued before the cut, and never for another part.
#[test]
fn parts_have_an_order_each() -> Result<()> {
    let device = Host::any(0)?;
    let (ours, other) = (device.stream()?, device.stream()?);
    let mut x: Buffer<u32, _, DeviceMem> = device.zeros(8)?;
    let (go, gate) = channel::<()>();
    ours.launch(&mut x, move |x: &mut [u32], ()| {
        let _ = gate.recv();
        x.fill(3);
    })?;
    let (mut first, mut second) = x.split_at(5)?;
    let mut seen = device.zeros::<u32>(3)?;
    other.copy(&second, &mut seen)?;
    go.send(()).expect("it waits");
    assert_eq!((first.to_vec()?, seen.to_vec()?), (vec![3; 5], vec![3; 3]));

    // The first is busy, and the second is not, on this thread and on another. A write on another
    // stream ends what it has to do with the stream of before.
    other.fill(&mut second, 4)?;
    let (go, gate) = channel::<()>();
    ours.launch(&mut first, move |x: &mut [u32], ()| {
        let _ = gate.recv();
        x.fill(4);
    })?;
    second.copy_from(&[5; 3])?;
    let second = std::thread::spawn(move || {
        let stream = device.stream()?;
        stream.launch(&mut second, |x: &mut [u32], ()| x[0] = 6)?;
        assert_eq!(second.to_vec()?, [6, 5, 5]);
        Ok::<_, Error>(second)
    });
    let second = second.join().expect("no panic")?;
    // Its uses may be under way when its owner and its neighbour are gone.
    let (mut head, tail) = first.split_at(2)?;
    drop((second, tail));
    ours.launch(&mut head, |x: &mut [u32], ()| x[1] += 10)?;
    go.send(()).expect("it waits");
    assert_eq!(head.to_vec()?, [4, 14]);
    Ok(())
}

#[test]
fn there_can_be_many_parts() -> Result<()> {
    let device = Host::any(0)?;
    let mut rest = device.from_slice(&(0..50_000).collect::<Vec<u32>>())?;
    let mut parts = Vec::new();
    for _ in 0..10_000 {
        let (part, after) = rest.split_at(3)?;
        parts.push(part);
        rest = after;
    }
    assert_eq!((rest.len(), rest.to_vec()?[0]), (20_000, 30_000));
    drop(rest);
    parts.truncate(7_000);
    let last = parts.swap_remove(6_999);
    drop(parts);
    assert_eq!(last.to_vec()?, [20_997, 20_998, 20_999]);
    Ok(())
}
