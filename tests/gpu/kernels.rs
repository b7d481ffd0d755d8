//! Kernels that programs declare: compiled by NVRTC, if the machine has it, and run.

use typed_nccl::error::KernelFault;
use typed_nccl::{
    Communicator, Cuda, Device, Error, Requirements, Result, Stream, Sum, World, kernel, plan,
};

use crate::axpy::axpy;
use crate::common::{connect, ranks, says};

kernel! {
    fn broken(y: &mut [f32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe cuda r#"
        #error as it was told
        y[0] = nothing;
    "#;
}
const ERROR: u32 = line!() - 4;

kernel! {
    #[launch(needs = sm_999)]
    fn newer(y: &mut [f32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe cuda "y[0] = 1;";
}

kernel! {
    /// Every rank's part of `from`, added up by address; then a part of the sums goes to the right
    /// neighbour.
    #[launch(threads = 128, blocks = 4)]
    fn sum_of_peers(dev: &DevComm, first: Barrier, from: &WindowSlice<f32>, to: &mut Window<f32>);
    // SAFETY: what runs of it stays within its slices.
    unsafe cuda r#"
        ncclCoopCta all;
        ncclLsaBarrierSession<ncclCoopCta> barrier(all, dev, ncclTeamTagLsa(), first + blockIdx.x);
        barrier.sync(all, cuda::memory_order_acquire);
        ncclTeam team = ncclTeamLsa(dev);
        float* right = (float*) ncclGetLsaPointer(to, 0, (team.rank + 1) % team.nRanks);
        size_t stride = (size_t) gridDim.x * blockDim.x;
        for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < to_len; i += stride) {
            float sum = 0;
            for (int rank = 0; rank < team.nRanks; rank++)
                sum += ((const float*) ncclGetLsaPointer(from, from_start * sizeof(float), rank))[i];
            right[i] = sum + team.rank;
        }
        barrier.sync(all, cuda::memory_order_release);
    "#;
}

plan! {
    /// Data from the left neighbour is added up.
    #[allow(deprecated, reason = "its streams take turns")]
    added(n: Ranks, len: usize) {
        inout x: [f32; len];
        local got: [f32; len];
        stream net, compute;
        send x to (rank + 1) % n into got on net;
        run add(read got, update x) on compute;
    }
}

/// Whether kernels can be compiled here; reports if not.
fn compiles<D: Device>(stream: &Stream<D>, device: &D) -> Result<bool>
where
    axpy: kernel::RunsOn<D>,
{
    let (x, mut y) = (device.zeros::<f32>(1)?, device.zeros::<f32>(1)?);
    match stream.run(axpy(1.0, &x, &mut y)) {
        Err(Error::BadKernel(bad)) if matches!(bad.fault, KernelFault::NoCompiler { .. }) => {
            println!("SKIPPED: {bad}");
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// The same for every device.
fn computes<W: World>(comm: &Communicator<W>) -> Result<()> {
    let (stream, device) = (comm.stream(), comm.device());
    if !compiles(stream, device)? {
        return Ok(());
    }
    for len in [1_usize, 127, 128, 129, 100_000] {
        let x = device.from_slice(&(0..len).map(|at| (at % 1000) as f32).collect::<Vec<_>>())?;
        let mut y = device.from_slice(&vec![1.0; len])?;
        for _ in 0..3 {
            stream.run(axpy(2.0, &x, &mut y))?;
            comm.all_reduce_in_place(&mut y, Sum)?;
        }
        let n = comm.size() as f32;
        let expected = |at: usize| (0..3).fold(1.0, |y, _| (y + 2.0 * (at % 1000) as f32) * n);
        assert_eq!(y.to_vec()?, (0..len).map(expected).collect::<Vec<_>>(), "{len} elements");
    }
    Ok(())
}

pub(crate) fn one_source_for_both_devices() -> Result<()> {
    typed_nccl::Host::spmd(2, |place| {
        let comm = place.init()?;
        computes(&comm)?;
        comm.finish()
    })?;
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 60)?;
        computes(&comm)?;
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn in_a_plan() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        if compiles(comm.stream(), comm.device())? {
            let (rank, n) = (comm.rank().index(), comm.size());
            let mut plan = added::bind(&mut comm, added::Params { len: 1000 })?;
            let mut x = comm.device().from_slice(&[rank as f32; 1000])?;
            let mut steps =
                plan.steps().add(|got, mut x, stream| stream.run(axpy(1.0, got, &mut x)));
            plan.run(&comm, added::Buffers { x: &mut x }, &mut steps)?;
            assert_eq!(x.to_vec()?, [(rank + (rank + n - 1) % n) as f32; 1000]);
        }
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn in_a_graph() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        if compiles(comm.stream(), comm.device())? {
            let n = comm.size() as f32;
            let x = comm.device().from_slice(&[1.0; 1000])?;
            let mut y = comm.device().zeros::<f32>(1000)?;
            let mut graph = comm.capture(|g| {
                g.run(axpy(0.5, &x, &mut y))?;
                g.all_reduce_in_place(&mut y, Sum)?;
                g.run(axpy(-1.0, &x, &mut y))
            })?;
            assert_eq!(y.to_vec()?, [0.0; 1000], "nothing has run");
            (0..3).try_for_each(|_| graph.launch(&comm))?;
            let expected = (0..3).fold(0.0, |y, _| (y + 0.5) * n - 1.0);
            assert_eq!(y.to_vec()?, [expected; 1000]);
        }
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn that_do_not_fit() -> Result<()> {
    let gpu = Cuda::local()?;
    let (stream, mut y) = (gpu.stream()?, gpu.zeros::<f32>(3)?);
    let newer = stream.run(newer(&mut y)).expect_err("there is no such GPU");
    says(&newer, &["`newer`", "it is written for sm_999, and this GPU is sm_"]);
    if compiles(&stream, &gpu)? {
        let broken = stream.run(broken(&mut y)).expect_err("it does not compile");
        says(
            &broken,
            &["`broken`", "NVRTC", &format!("tests/gpu/kernels.rs({ERROR})"), "as it was told"],
        );
        let x = gpu.zeros::<f32>(3)?;
        let wide = stream.run(axpy(1.0, &x, &mut y).grid(1, 2048)).expect_err("too many threads");
        says(&wide, &["`axpy`", "2048 threads"]);
        // The stream still works.
        stream.run(axpy(1.0, &x, &mut y))?;
        assert_eq!(y.to_vec()?, [0.0; 3]);
    }
    Ok(())
}

pub(crate) fn that_communicate() -> Result<()> {
    const LEN: usize = 10_000;
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let api = match comm.device_api() {
            Err(Error::Unsupported(why)) => {
                println!("SKIPPED: {why}");
                return comm.finish();
            }
            api => api?,
        };
        if !compiles(comm.stream(), comm.device())? || comm.lsa_team()?.size != comm.size() {
            return comm.finish();
        }
        let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(5))?;
        let first = dev.lsa_barrier(1)?;
        let (rank, n) = (comm.rank().index(), comm.size());
        let (mut from, mut to) = (comm.window::<f32>(8 + LEN)?, comm.window::<f32>(LEN)?);
        for turn in 0..10 {
            let values: Vec<_> = (0..LEN).map(|at| (at % 100 + rank + turn) as f32).collect();
            from.slice_mut(8..8 + LEN).copy_from(&values)?;
            let part = from.slice(8..8 + LEN);
            match comm.stream().run(sum_of_peers(&dev, first, &part, &mut to)) {
                Err(Error::BadKernel(bad))
                    if matches!(bad.fault, KernelFault::NoHeaders { .. }) =>
                {
                    println!("SKIPPED: {bad}");
                    break;
                }
                done => done?,
            }
            let left = (rank + n - 1) % n;
            let sum = |at: usize| n * (at % 100 + turn) + n * (n - 1) / 2 + left;
            assert_eq!(to.to_vec()?, (0..LEN).map(|at| sum(at) as f32).collect::<Vec<_>>());
            comm.barrier()?;
        }
        let mut graph =
            comm.capture(|g| g.run(sum_of_peers(&dev, first, &from.slice(8..8 + LEN), &mut to)))?;
        (0..10).try_for_each(|_| graph.launch(&comm))?;
        comm.sync(comm.stream())?;
        drop(graph);
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}
