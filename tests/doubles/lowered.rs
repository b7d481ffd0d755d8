//! Which of a plan's communicators have this library's kernels, where data moves; and what binding
//! does without memory.

use std::path::PathBuf;
use std::{env, fs, process};

use fake_cuda::Code;
use typed_nccl::plan::build::{Checked, PlanBuilder};
use typed_nccl::plan::{self, Values};
use typed_nccl::{Communicator, Cuda, Device, Error, Result, Sum, World};
use typed_nccl_plan::lower::{Call, Work};

use crate::common::connect;
use crate::scenario::{Machine, NEWEST, cuda, on};

/// Ranks meet in this folder.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let place = if memory.is_dir() { memory } else { env::temp_dir() };
        let folder = place.join(format!("typed-nccl-lowered.{}", process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        // SAFETY: no other thread of this process reads the environment now.
        unsafe { env::set_var("FAKE_NCCL_MOVES", &folder) };
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Rows of two ranks add up, then all ranks.
fn rows() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("rows");
    let (_, columns) = (plan.axis("rows", 1..), plan.axis("columns", 2..));
    let (x, y) = (plan.in_out::<f32>("x", 300), plan.in_out::<f32>("y", 300));
    let (row, net) = (plan.communicator("row", [columns]), plan.stream("net"));
    plan.on(net).among(row).all_reduce_in_place(x, Sum);
    plan.on(net).among(row).all_reduce_in_place(y, Sum);
    plan.on(net).all_reduce_in_place(y, Sum);
    plan.check().unwrap_or_else(|refused| panic!("{refused}"))
}

fn run_rows<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let values = Values::new().axis("rows", 2).axis("columns", 2);
    let mut bound = plan::bind(&mut comm, rows().plan(), &values)?;
    let told = bound.describe();
    assert!(told.contains("No kernels of this library on `world`"), "{told}");
    assert!(told.contains("reaches 2 of 4"), "{told}");
    assert!(told.contains("one kernel for 2 all_reduces"), "{told}");
    let calls = &bound.schedule().ranks[comm.rank().index()].calls;
    let is_kernel = |call: &Call| matches!(call.work, Work::Kernel { .. });
    assert_eq!(calls.iter().map(is_kernel).collect::<Vec<_>>(), [true, false], "{told}");
    let rank = comm.rank().index() as f32;
    let mut x = comm.device().from_slice(&[rank; 300])?;
    let mut y = comm.device().from_slice(&[1.0_f32; 300])?;
    bound.on(&comm).write("x", &mut x).write("y", &mut y).run(&mut ())?;
    let row = if comm.rank().index() < 2 { 1.0 } else { 5.0 };
    assert_eq!((x.to_vec()?, y.to_vec()?), (vec![row; 300], vec![8.0; 300]));
    comm.finish()
}

/// If two neighbours reach each other's memory, rows of two have kernels, and all four have none.
#[test]
fn some_ranks_have_kernels_where_all_have_none() {
    let near = &[("FAKE_CUDA_DEVICES", "4"), ("FAKE_NCCL_NEAR", "2")];
    on(Machine { variables: near, ..NEWEST }, || {
        let _folder = Folder::new();
        Cuda::spmd(4, |place| run_rows(place.init()?)).map(drop)
    });
}

/// A rank without memory for the first operations fails before they are issued, with all others:
/// they would meet its next ones.
#[test]
fn binding_fails_on_all_ranks_if_one_has_no_memory() {
    on(NEWEST, || {
        let mut plan = PlanBuilder::new("sum");
        plan.ranks(1..);
        let (x, net) = (plan.in_out::<f32>("x", 4), plan.stream("net"));
        plan.on(net).all_reduce_in_place(x, Sum);
        let plan = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 20_000)?;
            comm.barrier()?;
            if comm.rank().index() == 0 {
                cuda().fail("cuMemAlloc_v2", Code::UNKNOWN);
            }
            comm.barrier()?;
            let told = plan::bind(&mut comm, plan.plan(), &Values::new()).map(drop);
            let told = told.expect_err("one rank has no memory");
            assert!(matches!(told, Error::CudaFailed(_) | Error::PlansDiffer(_)), "{told}");
            comm.barrier()?;
            // Nothing was issued.
            let mut sum = plan::bind(&mut comm, plan.plan(), &Values::new())?;
            let mut x = comm.device().zeros::<f32>(4)?;
            sum.on(&comm).write("x", &mut x).run(&mut ())?;
            x.to_vec()?;
            comm.finish()
        })
        .map(drop)
    });
}
