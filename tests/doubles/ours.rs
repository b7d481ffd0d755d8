//! This library's own kernels, beside calls that no kernel may take. Data moves.

use nccl_sys::Function::ncclAlltoAll;
use typed_nccl::plan::build::{Checked, PlanBuilder, PlanElement, ring};
use typed_nccl::plan::{self, Values};
use typed_nccl::zerocopy::{FromBytes, Immutable, IntoBytes};
use typed_nccl::{Communicator, Cuda, Device, Element, Plain, Result, Sum, World, bf16};
use typed_nccl_plan::ir::ElementType;
use typed_nccl_plan::lower::{Call, Work};

use crate::common::{alone, assert_silent, clear, connect, count, says};
use crate::lowered::Folder;
use crate::scenario::{Machine, NEWEST, cuda, on};

/// Two GPUs, as a double of NCCL that moves data has no others.
const TWO: Machine = Machine { variables: &[("FAKE_CUDA_DEVICES", "2")], ..NEWEST };

/// A kernel has one element type: buffers of another one get a launch of their own.
#[test]
fn buffers_of_different_types_share_no_kernel() {
    on(TWO, || {
        let _folder = Folder::new();
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let (kernels, device) = (comm.kernels()?, comm.device().clone());
            let wide = device.from_slice(&[1.5_f64; 64])?.into_dyn();
            // Twice as many bytes would reach past each of these.
            let narrow = device.from_slice(&[2.5_f32; 64])?.into_dyn();
            let last = device.from_slice(&[3.5_f32])?.into_dyn();
            let mut all = [wide, narrow, last];
            kernels.all_reduce_each_in_place(&comm, &mut all, Sum)?;
            let [wide, narrow, last] = all;
            assert_eq!(wide.try_into_typed::<f64>()?.to_vec()?, [3.0; 64]);
            assert_eq!(narrow.try_into_typed::<f32>()?.to_vec()?, [5.0; 64]);
            assert_eq!(last.try_into_typed::<f32>()?.to_vec()?, [7.0]);
            comm.finish()
        })?;
        Ok(())
    });
}

/// The error of ranks that reduce buffers of these lengths: by rank and by call.
fn differ(lengths: [&[&[usize]]; 2], words: &[&str]) -> Result<()> {
    let _folder = Folder::new();
    Cuda::spmd(2, |place| {
        let comm = connect(place, 20_000)?;
        let kernels = comm.kernels()?;
        let zeros = |len: &usize| comm.device().zeros::<f32>(*len);
        comm.barrier()?;
        let called = lengths[comm.rank().index()].iter().try_for_each(|lengths| {
            let mut all = lengths.iter().map(zeros).collect::<Result<Vec<_>>>()?;
            kernels.all_reduce_each_in_place(&comm, &mut all, Sum)
        });
        let told = called.and_then(|()| comm.sync(comm.stream()));
        says(&told.expect_err("they differ"), words);
        Ok(())
    })
    .map(drop)
}

/// Their elements would meet others, although the sums of the lengths are the same.
#[test]
fn lengths_of_fused_buffers_are_compared_between_ranks() {
    on(TWO, || differ([&[&[3, 5]], &[&[5, 3]]], &["all_reduce of 3 f32", "all_reduce of 5 f32"]));
}

/// One launch of two buffers, and one launch of each.
#[test]
fn fused_buffers_meet_no_single_ones() {
    on(TWO, || differ([&[&[3, 5]], &[&[3], &[5]]], &["a kernel of this library or not"]));
}

/// Of twelve bytes, aligned to four: kernels would move words of eight.
#[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "typed_nccl::zerocopy")]
#[repr(C)]
struct Particle([u32; 3]);

impl Plain for Particle {}

/// Of another size.
#[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "typed_nccl::zerocopy")]
#[repr(C)]
struct Word(u32);

impl Plain for Word {}

#[test]
fn plain_elements_take_nccls_all_to_all() {
    on(NEWEST, || {
        let comm = alone()?;
        let kernels = comm.kernels()?;
        let launches = || cuda().called().iter().filter(|name| **name == "cuLaunchKernel").count();
        let x = comm.device().from_slice(&[1.0_f32; 3])?;
        let mut y = comm.device().zeros::<f32>(3)?;
        clear();
        kernels.all_to_all(&comm, &x, &mut y)?;
        assert_eq!((launches(), count(ncclAlltoAll)), (1, 0));
        let (x, mut y) = (
            comm.device().from_slice(&[Particle([1, 2, 3]); 3])?,
            comm.device().zeros::<Particle>(3)?,
        );
        clear();
        kernels.all_to_all(&comm, &x, &mut y)?;
        assert_eq!((launches(), count(ncclAlltoAll)), (0, 1));
        comm.finish()
    });
}

/// Type parameters of a plan.
struct First;
struct Second;

impl PlanElement for First {
    fn element() -> ElementType {
        ElementType::Generic("First".into())
    }
}

impl PlanElement for Second {
    fn element() -> ElementType {
        ElementType::Generic("Second".into())
    }
}

/// All_to_alls of two type parameters, which could share a kernel, and messages.
fn two_types() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("two types");
    plan.ranks(2..=2);
    let (a, b) = (plan.input::<First>("a", 6), plan.output::<First>("b", 6));
    let (c, d) = (plan.input::<Second>("c", 6), plan.output::<Second>("d", 6));
    let (e, net) = (plan.output::<First>("e", 6), plan.stream("net"));
    plan.on(net).all_to_all(a, b);
    plan.on(net).all_to_all(c, d);
    plan.on(net).transfer(a, ring(1), e);
    plan.check().unwrap_or_else(|refused| panic!("{refused}"))
}

/// How many kernels the plan has, and the data that arrive.
fn run_two_types<W: World, T: Element + PartialEq, U: Element + PartialEq>(
    comm: &mut Communicator<W>,
    a: impl Fn(u32) -> T,
    c: impl Fn(u32) -> U,
) -> Result<usize> {
    let values = Values::new().element::<T>("First").element::<U>("Second");
    let mut bound = plan::bind(comm, two_types().plan(), &values)?;
    let rank = comm.rank().index();
    let device = comm.device();
    let sent = |rank: usize| (0..6).map(move |at| (rank * 6 + at) as u32 + 1);
    let (of_a, of_c) = (
        device.from_slice(&sent(rank).map(&a).collect::<Vec<_>>())?,
        device.from_slice(&sent(rank).map(&c).collect::<Vec<_>>())?,
    );
    let (mut b, mut e) = (device.zeros::<T>(6)?, device.zeros::<T>(6)?);
    let mut d = device.zeros::<U>(6)?;
    let run = bound.on(comm).read("a", &of_a).write("b", &mut b);
    run.read("c", &of_c).write("d", &mut d).write("e", &mut e).run(&mut ())?;
    let blocks = || (0..2).flat_map(|from| sent(from).skip(rank * 3).take(3));
    assert!(b.to_vec()? == blocks().map(&a).collect::<Vec<_>>());
    assert!(d.to_vec()? == blocks().map(&c).collect::<Vec<_>>());
    assert!(e.to_vec()? == sent(1 - rank).map(&a).collect::<Vec<_>>());
    let calls = &bound.schedule().ranks[rank].calls;
    Ok(calls.iter().filter(|call: &&Call| matches!(call.work, Work::Kernel { .. })).count())
}

#[test]
fn plain_elements_of_plans_take_nccls_calls() {
    on(TWO, || {
        let _folder = Folder::new();
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 20_000)?;
            let particle = |x| Particle([x, x + 1, x + 2]);
            assert_eq!(run_two_types(&mut comm, particle, Word)?, 0);
            assert_eq!(run_two_types(&mut comm, |x| x as f32, |x| x)?, 3);
            let narrow = |x| bf16::from_f32(x as f32);
            assert_eq!(run_two_types(&mut comm, Word, narrow)?, 0);
            comm.finish()
        })
        .map(drop)
    });
}

/// The kernel of a plan's local work would access another GPU's memory.
#[test]
fn local_work_of_plans_takes_no_other_gpus_memory() {
    on(NEWEST, || {
        let mut plan = PlanBuilder::new("local");
        plan.ranks(1..);
        let (x, y) = (plan.in_out::<f32>("x", 4), plan.input::<f32>("y", 4));
        let s = plan.stream("s");
        plan.on(s).update(x, Sum, y);
        let plan = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut comm = alone()?;
        let mut local = plan::bind(&mut comm, plan.plan(), &Values::new())?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let y = Cuda::any(1)?.from_slice(&[1.0_f32; 4])?;
        clear();
        let refused = local.on(&comm).write("x", &mut x).read("y", &y).run(&mut ());
        assert_error!(refused, OtherDevice, "run", "the buffer is on cuda:1", "takes cuda:0");
        assert_silent("a refusal");
        comm.finish()
    });
}
