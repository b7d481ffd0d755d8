//! Run-time twins: the same methods, with an error where the typed form would not compile.

use typed_nccl::{
    Avg, Buffer, Communicator, DType, Device, DynBuffer, DynReduceOp, Error, Host, Lifecycle,
    LocalOnly, Result, Seat, Sum, Symmetric, WindowFlags, bf16,
};

use crate::ranks::spmd;

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn every_data_type_and_operator_by_value() -> Result<()> {
    const OPS: [DynReduceOp; 5] = [
        DynReduceOp::Add,
        DynReduceOp::Multiply,
        DynReduceOp::Least,
        DynReduceOp::Greatest,
        DynReduceOp::Mean,
    ];
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        // All but truth values.
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_integer() || dtype.is_float()) {
            for op in OPS {
                let x = DynBuffer::zeros(comm.device(), dtype, 3)?;
                let mut y = DynBuffer::zeros(comm.device(), dtype, 3)?;
                assert_eq!((x.dtype(), x.len()), (dtype, 3));
                let outcome = comm.all_reduce(&x, &mut y, op);
                if op == DynReduceOp::Mean && !dtype.is_float() {
                    says(&outcome.expect_err("refused"), &["`Avg` cannot reduce", "use `Sum`"]);
                    comm.barrier()?;
                } else {
                    outcome?;
                    comm.sync(comm.stream())?;
                }
            }
        }
        comm.finish()
    })
}

#[test]
fn typed_and_back() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index() as f32;
        let mut x = comm.device().from_slice(&[bf16::from_f32(rank); 4])?.into_dyn();
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.all_reduce_in_place(&mut x, Avg)?;
        comm.broadcast_in_place(&mut x, 1)?;
        let mut all = DynBuffer::zeros(comm.device(), DType::Bf16, 12)?;
        comm.all_gather(&x, &mut all)?;
        let failed = all.try_into_typed::<f32>().expect_err("it is bf16");
        says(&failed.error, &["try_into_typed: found bf16, expected f32"]);
        let all: Buffer<bf16, _> = failed.value.try_into_typed()?;
        assert_eq!(all.to_vec()?, [bf16::from_f32(3.0); 12]);
        comm.finish()
    })
}

#[test]
fn a_group_and_uneven_blocks_of_run_time_types() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (peer, rank) = (comm.ring(1), comm.rank().index() as i32);
        let x = comm.device().from_slice(&[rank; 3])?.into_dyn();
        let mut y = DynBuffer::zeros(comm.device(), DType::I32, 3)?;
        let mut sum = DynBuffer::zeros(comm.device(), DType::I32, 3)?;
        let mut all = DynBuffer::zeros(comm.device(), DType::I32, 6)?;
        comm.group(|g| {
            g.send(&x, peer)?;
            g.recv(&mut y, peer)?;
            g.all_reduce(&x, &mut sum, DynReduceOp::Add)?;
            g.all_gather(&x, &mut all)
        })?;
        assert_eq!(y.try_into_typed::<i32>()?.to_vec()?, [1 - rank; 3]);
        assert_eq!(sum.try_into_typed::<i32>()?.to_vec()?, [1; 3]);
        assert_eq!(all.try_into_typed::<i32>()?.to_vec()?, [0, 0, 0, 1, 1, 1]);
        let blocks = comm.blocks(3)?;
        let mut all = DynBuffer::zeros(comm.device(), DType::I32, 6)?;
        comm.all_gather_v(&x, &mut all, &blocks)?;
        assert_eq!(all.try_into_typed::<i32>()?.to_vec()?, [0, 0, 0, 1, 1, 1]);
        let mut other = DynBuffer::zeros(comm.device(), DType::F32, 6)?;
        let error = comm.all_gather_v(&x, &mut other, &blocks).expect_err("they differ");
        says(&error, &["all_gather_v: found f32, expected i32", "tests/dynamic.rs"]);
        let error = comm.group(|g| g.all_gather(&x, &mut other)).expect_err("they differ");
        says(&error, &["all_gather: found f32, expected i32", "tests/dynamic.rs"]);
        comm.finish()
    })
}

#[test]
fn data_types_that_differ_are_refused_and_told() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let x = DynBuffer::zeros(comm.device(), DType::F32, 4)?;
        let mut y = DynBuffer::zeros(comm.device(), DType::I32, 4)?;
        let error = match comm.rank().index() {
            0 => comm.all_reduce(&x, &mut y, Sum).expect_err("they differ"),
            _ => {
                let mut y = DynBuffer::zeros(comm.device(), DType::F32, 4)?;
                comm.all_reduce(&x, &mut y, Sum)?;
                comm.sync(comm.stream()).expect_err("told")
            }
        };
        says(&error, &["all_reduce: found i32, expected f32", "one data type"]);
        comm.finish()
    })
}

/// A struct whose communicator changes state behind `&mut self`.
struct Server<D: Device> {
    comm: Lifecycle<D>,
}

impl<D: Device> Server<D> {
    fn sum(&self, values: &[u64]) -> Result<Vec<u64>> {
        let comm = self.comm.ready()?;
        let mut x = comm.device().from_slice(values)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        x.to_vec()
    }
}

#[test]
fn a_lifecycle_in_a_field() -> Result<()> {
    let starting = Seat::local(1).remove(0).start(Host::local()?)?;
    let mut server = Server { comm: starting.into() };
    says(&server.sum(&[1]).expect_err("not ready"), &["not ready yet", "wait_ready"]);
    server.comm.wait_ready(std::time::Instant::now() + std::time::Duration::from_secs(5))?;
    assert_eq!(server.sum(&[1, 2])?, [1, 2]);
    let window = server.comm.ready_mut()?.window::<f32>(4)?;
    assert_eq!(window.flags(), WindowFlags::of::<Symmetric>());
    assert!(!window.flags().is::<LocalOnly>() && window.flags().bits() == 1);
    let comm: Communicator<Host> = server.comm.try_into_ready()?;
    let mut server = Server { comm: comm.into() };
    server.comm.abort();
    says(&server.sum(&[1]).expect_err("over"), &["it was aborted"]);
    assert!(server.comm.try_into_ready().is_err());
    Ok(())
}
