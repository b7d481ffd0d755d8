//! Elements that NCCL lacks: plain data of a program's own, short integers, truth values.

use typed_nccl::plans::tree_broadcast;
use typed_nccl::zerocopy::{FromBytes, Immutable, IntoBytes};
use typed_nccl::{
    And, BitAnd, BitOr, BitXor, Bool, Buffer, DType, DynBuffer, Element, Error, Host, Integer, Max,
    Min, Or, Plain, Prod, Result, Sum, plan,
};

use crate::ranks::spmd;

#[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Particle {
    at: [f32; 2],
    id: u32,
}

impl Plain for Particle {}

/// As large as a particle, and something else.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "typed_nccl::zerocopy")]
#[repr(C)]
struct Triple([u32; 3]);

impl Plain for Triple {}

/// More than a chunk of the engine's in one element.
#[derive(Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Page([u8; 70_001]);

impl Plain for Page {}

#[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(16))]
struct Wide([u64; 2]);

impl Plain for Wide {}

fn particle(rank: usize, nth: usize) -> Particle {
    Particle { at: [rank as f32, nth as f32 + 0.5], id: (100 * rank + nth) as u32 }
}

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// All operations that only move data.
fn moves<T: Element + PartialEq>(value: impl Fn(usize, usize) -> T + Sync) -> Result<()> {
    const LEN: usize = 3;
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (rank, n) = (comm.rank().index(), comm.size());
        let list = |rank: usize, len: usize| (0..len).map(|nth| value(rank, nth)).collect();
        let (own, whole): (Vec<T>, Vec<T>) = (list(rank, LEN), list(rank, LEN * n));
        let all: Vec<T> = (0..n).flat_map(|rank| list(rank, LEN)).collect();
        let device = comm.device().clone();
        let (x, wholes) = (device.from_slice(&own)?, device.from_slice(&whole)?);
        let (mut y, mut ys) = (device.zeros::<T>(LEN)?, device.zeros::<T>(LEN * n)?);

        comm.all_gather(&x, &mut ys)?;
        assert!(ys.to_vec()? == all);
        comm.stream().copy(&x, &mut y)?;
        comm.broadcast_in_place(&mut y, 1)?;
        assert!(y.to_vec()? == list(1, LEN));
        comm.all_to_all(&wholes, &mut ys)?;
        let exchanged = (0..n).flat_map(|from| (0..LEN).map(move |nth| (from, rank * LEN + nth)));
        assert!(ys.to_vec()? == exchanged.map(|(from, nth)| value(from, nth)).collect::<Vec<_>>());

        // A message in a group, from a slice.
        let (next, before) = (comm.ring(1), comm.ring(-1));
        comm.group(|g| {
            g.send(wholes.slice(1..LEN), next)?;
            g.recv(y.slice_mut(1..LEN), before)
        })?;
        assert!(y.to_vec()?[1..] == list(before.index(), LEN)[1..]);

        // A put of one element, at an offset.
        let mut window = comm.window::<T>(LEN)?;
        window.copy_from(&own)?;
        comm.barrier()?;
        comm.put_signal(window.slice(0..1), next, window.at(2))?;
        comm.wait_signal(before)?;
        assert!(window.to_vec()?[2] == value(before.index(), 0));

        // Copies, in a graph too, and types known at run time.
        comm.stream().copy(&x, &mut y)?;
        assert!(y.to_vec()? == own);
        let mut copy = device.zeros::<T>(LEN)?;
        let mut graph = comm.capture(|g| {
            g.broadcast_in_place(&mut y, 2)?;
            g.copy(&y, &mut copy)
        })?;
        graph.launch(&comm)?;
        assert!(copy.to_vec()? == list(2, LEN));
        drop(graph);
        let mut any = DynBuffer::zeros(&device, T::DTYPE, LEN * n)?;
        comm.all_gather(&x.into_dyn(), &mut any)?;
        let any: Buffer<T, _> = any.typed()?;
        assert!(any.to_vec()? == all);
        comm.finish()
    })
}

#[test]
fn structs_of_a_program_move() -> Result<()> {
    moves(particle)
}

#[test]
fn elements_larger_than_a_chunk_move() -> Result<()> {
    moves(|rank, nth| Page([(16 * rank + nth + 1) as u8; 70_001]))
}

#[test]
fn short_integers_and_truth_values_move() -> Result<()> {
    moves(|rank, nth| (1000 * rank + nth) as u16)?;
    moves(|rank, nth| -((1000 * rank + nth) as i16))?;
    moves(|rank, nth| Bool::from((rank + nth).is_multiple_of(2)))?;
    moves(|rank, nth| Wide([rank as u64, nth as u64]))
}

plan! {
    /// Short integers and truth values to the next rank.
    shorts(n: Ranks) {
        in x: [i16; 3];
        in flags: [Bool; 2];
        out y: [i16; 3];
        out got: [Bool; 2];
        send x to (rank + 1) % n into y;
        send flags to (rank + 1) % n into got;
    }
}

#[test]
fn plans_move_them() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let mut broadcast =
            tree_broadcast::bind::<Particle, _>(&mut comm, tree_broadcast::Params { len: 5 })?;
        let own = |rank| (0..5).map(|nth| particle(rank, nth)).collect::<Vec<_>>();
        let mut x = device.from_slice(&own(rank))?;
        broadcast.run(&comm, tree_broadcast::Buffers { x: &mut x })?;
        assert_eq!(x.to_vec()?, own(0));

        let mut shorts = shorts::bind(&mut comm)?;
        let x = device.from_slice(&[rank as i16, -1, i16::MIN])?;
        let flags = device.from_slice(Bool::of(&[true, rank == 0]))?;
        let (mut y, mut got) = (device.zeros(3)?, device.zeros(2)?);
        shorts.run(&comm, shorts::Buffers { x: &x, flags: &flags, y: &mut y, got: &mut got })?;
        let before = comm.ring(-1).index();
        assert_eq!(y.to_vec()?, [before as i16, -1, i16::MIN]);
        assert_eq!(got.to_vec()?, [true, before == 0]);
        comm.finish()
    })
}

#[test]
fn parts_of_large_buffers_of_structs_move() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (rank, len) = (comm.rank().index(), 3000);
        let values = |rank: usize| (0..len).map(move |nth| particle(rank, nth)).collect::<Vec<_>>();
        let x = comm.device().from_slice(&values(rank))?;
        let mut y = comm.device().zeros::<Particle>(len)?;
        for first in 0..5 {
            comm.group(|g| {
                g.send(x.slice(first..), 1 - rank)?;
                g.recv(y.slice_mut(first..), 1 - rank)?;
                Ok(())
            })?;
            assert!(y.slice(first..).to_vec()? == values(1 - rank)[first..]);
        }
        let mut all = comm.device().zeros::<Particle>(2 * (len - 1))?;
        comm.all_gather(&x.slice(1..), &mut all)?;
        assert!(all.to_vec()? == [&values(0)[1..], &values(1)[1..]].concat());
        comm.finish()
    })
}

#[test]
fn types_of_the_same_size_are_a_mismatch() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let found = match comm.rank().index() {
            0 => {
                let mut x = comm.device().zeros::<Particle>(4)?;
                comm.broadcast_in_place(&mut x, 0).and_then(|()| x.to_vec().map(drop))
            }
            _ => {
                let mut x = comm.device().zeros::<Triple>(4)?;
                comm.broadcast_in_place(&mut x, 0).and_then(|()| x.to_vec().map(drop))
            }
        };
        let error = found.expect_err("two types");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        says(&error, &["Particle (12 bytes)", "Triple (12 bytes)"]);
        Ok(())
    })
}

#[test]
fn what_cannot_be_reduced_is_refused_by_value() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let device = comm.device();
        let mut x = device.zeros::<Particle>(4)?.into_dyn();
        let error = comm.all_reduce_in_place(&mut x, Sum).expect_err("no sum");
        says(&error, &["`Sum` cannot reduce", "Particle (12 bytes)", "can only be moved"]);
        let mut flags = DynBuffer::zeros(device, DType::Bool, 4)?;
        let error = comm.all_reduce_in_place(&mut flags, Max).expect_err("no maximum");
        says(&error, &["`Max` cannot reduce bool", "`And` and `Or` reduce truth values"]);
        let mut floats = DynBuffer::zeros(device, DType::F32, 4)?;
        let error = comm.all_reduce_in_place(&mut floats, BitXor).expect_err("no bits");
        says(&error, &["`BitXor` cannot reduce f32", "bits are combined in integers"]);
        let failed = x.try_into_typed::<Triple>().expect_err("a particle");
        says(&failed.error, &["Particle (12 bytes)", "Triple (12 bytes)"]);
        assert_eq!(failed.value.typed::<Particle>()?.len(), 4);
        comm.finish()
    })
}

#[test]
fn misaligned_memory_of_a_struct_is_refused() -> Result<()> {
    let host = Host::local()?;
    let mut words = vec![0_u64; 8];
    let start = words.as_mut_ptr().wrapping_byte_add(if words.as_ptr().addr().is_multiple_of(16) {
        8
    } else {
        0
    });
    // SAFETY: it is refused for its alignment, so nothing uses it.
    let refused = unsafe { Buffer::<Wide, _, _>::from_raw(&host, start.cast(), 2) };
    says(&refused.expect_err("misaligned"), &["Wide (16 bytes)", "no multiple of 16"]);
    Ok(())
}

fn bits<T>(len: usize) -> Result<()>
where
    T: Integer + From<u8>,
    T: std::ops::BitAnd<Output = T> + std::ops::BitOr<Output = T> + std::ops::BitXor<Output = T>,
{
    spmd::<Host>(4, |place| {
        let comm = place.init()?;
        let own = |rank: usize| -> Vec<T> {
            (0..len).map(|at| T::from(((rank * 37 + at * 11) % 128) as u8)).collect()
        };
        let folded = |f: fn(T, T) -> T| -> Vec<T> {
            let add = |a: Vec<T>, b: Vec<T>| a.into_iter().zip(b).map(|(a, b)| f(a, b)).collect();
            (1..4).map(own).fold(own(0), add)
        };
        let x = comm.device().from_slice(&own(comm.rank().index()))?;
        let mut y = comm.device().zeros::<T>(len)?;
        comm.all_reduce(&x, &mut y, BitAnd)?;
        assert_eq!(y.to_vec()?, folded(|a, b| a & b));
        comm.all_reduce(&x, &mut y, BitOr)?;
        assert_eq!(y.to_vec()?, folded(|a, b| a | b));
        comm.all_reduce(&x, &mut y, BitXor)?;
        assert_eq!(y.to_vec()?, folded(|a, b| a ^ b));
        comm.finish()
    })
}

#[test]
fn bits_are_combined() -> Result<()> {
    bits::<u8>(1000)?;
    bits::<i16>(1000)?;
    bits::<u16>(7)?;
    bits::<i32>(7)?;
    bits::<u32>(7)?;
    bits::<i64>(7)?;
    bits::<u64>(70_000)
}

#[test]
fn short_integers_are_reduced() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let x = comm.device().from_slice(&[30_000_i16 + rank as i16, -(rank as i16)])?;
        let mut y = comm.device().zeros::<i16>(2)?;
        comm.all_reduce(&x, &mut y, Sum)?;
        assert_eq!(y.to_vec()?, [90_003_i32 as i16, -3]);
        comm.all_reduce(&x, &mut y, Min)?;
        assert_eq!(y.to_vec()?, [30_000, -2]);
        comm.all_reduce(&x, &mut y, Max)?;
        assert_eq!(y.to_vec()?, [30_002, 0]);
        let mut z = comm.device().from_slice(&[3_u16, 300])?;
        comm.all_reduce_in_place(&mut z, Prod)?;
        assert_eq!(z.to_vec()?, [27, 27_000_000_u32 as u16]);
        comm.finish()
    })
}

#[test]
fn truth_values_are_reduced_and_read_from_any_byte() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        // True as 1, 2 and 255.
        let bytes = [[1_u8, 1, 0], [2, 0, 0], [255, 4, 0]][rank];
        let own = <[Bool]>::ref_from_bytes(&bytes).expect("any byte is one");
        let x = comm.device().from_slice(own)?;
        let mut y = comm.device().zeros::<Bool>(3)?;
        comm.all_reduce(&x, &mut y, And)?;
        assert_eq!(y.to_vec()?, [true, false, false]);
        comm.all_reduce(&x, &mut y, Or)?;
        assert_eq!(y.to_vec()?.as_bytes(), [1, 1, 0]);
        comm.finish()
    })
}
