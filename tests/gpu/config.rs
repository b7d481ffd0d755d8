//! Configurations of communicators and of calls, with a real NCCL.

use typed_nccl::{
    Algorithm, Algorithms, CallConfig, CaptureOrder, CommConfig, Communicator, CtaPolicy, Ctas,
    Cuda, Device, Error, GraphUse, LaunchOrder, NcclVersion, Network, Place, Protocol, Result, Sum,
    library,
};

use crate::common::{ranks, says, seconds};
use crate::runner::shared;

/// Whether the loaded NCCL is new enough; reports if it is not.
fn has(version: NcclVersion, what: &str) -> Result<bool> {
    let loaded = library::version()?;
    if loaded < version {
        println!("SKIPPED: NCCL {loaded} has no {what}");
    }
    Ok(loaded >= version)
}

fn connect<D: Device>(place: Place<D>, mut config: CommConfig) -> Result<Communicator<D>> {
    config.deadline = seconds(30);
    let (seat, device) = place.into_parts();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// Sums and gathers, with exact numbers.
fn computes<T>(comm: &Communicator<Cuda<T>>, config: Option<&CallConfig>) -> Result<()> {
    const COUNT: usize = 70_001;
    let (n, rank) = (comm.size(), comm.rank().index());
    let own: Vec<u64> = (0..COUNT).map(|i| (rank * 1_000_000 + i) as u64).collect();
    let (x, mut sum) = (comm.device().from_slice(&own)?, comm.device().zeros::<u64>(COUNT)?);
    let mut all = comm.device().zeros::<u64>(n * COUNT)?;
    match config {
        Some(config) => {
            comm.with(config).all_reduce(&x, &mut sum, Sum)?;
            comm.with(config).all_gather(&x, &mut all)?;
        }
        None => {
            comm.all_reduce(&x, &mut sum, Sum)?;
            comm.all_gather(&x, &mut all)?;
        }
    }
    let of = |rank: usize, i: usize| (rank * 1_000_000 + i) as u64;
    let sum = sum.to_vec()?;
    assert!((0..COUNT).all(|i| sum[i] == (0..n).map(|rank| of(rank, i)).sum::<u64>()));
    let all = all.to_vec()?;
    assert!((0..n * COUNT).all(|at| all[at] == of(at / COUNT, at % COUNT)));
    Ok(())
}

/// Each option alone: NCCL accepts it, and computes the same.
pub(crate) fn communicators_that_are_tuned() -> Result<()> {
    let of = CommConfig::builder;
    let ctas = |ctas| of().ctas(ctas).build();
    let v = NcclVersion::new;
    let cases = [
        (v(2, 18, 0), "range of CTAs", ctas(Ctas::between(2, 4))),
        (v(2, 18, 0), "most CTAs", ctas(Ctas::at_most(1))),
        (v(2, 18, 0), "cluster size", ctas(Ctas::any().cluster(2))),
        (v(2, 27, 3), "CTAs of multicast", ctas(Ctas::any().multicast(4))),
        (v(2, 27, 3), "efficiency", ctas(Ctas::any().policy(CtaPolicy::Efficiency))),
        (v(2, 28, 3), "copy engines", ctas(Ctas::any().policy(CtaPolicy::Zero))),
        (v(2, 26, 2), "traffic class", of().network(Network::any().traffic_class(104)).build()),
        (v(2, 28, 3), "channels", of().network(Network::any().channels_per_peer(4)).build()),
        (v(2, 28, 3), "NVLink first", of().nvlink_first(true).build()),
        (v(2, 30, 3), "peers", of().p2p_peers(1).build()),
        (v(2, 29, 2), "no graphs", of().graphs(GraphUse::None).build()),
        (v(2, 30, 7), "free captures", of().graphs(GraphUse::One(CaptureOrder::Free)).build()),
        (v(2, 31, 2), "order of calls", of().launch_order(LaunchOrder::Calls).build()),
        (v(2, 29, 2), "no one-sided operations", of().contexts(0).build()),
    ];
    for (since, what, config) in cases {
        // With this option NCCL refuses one of two threads that launch on one GPU.
        let one_thread = config.launch_order == LaunchOrder::Calls;
        if !has(since, what)? || one_thread && shared() > 1 {
            continue;
        }
        Cuda::spmd(ranks()?, |place| {
            let comm = connect(place, config.clone())?;
            computes(&comm, None)?;
            comm.finish()
        })?;
    }
    Ok(())
}

/// Every algorithm that two GPUs of one host always have, with each protocol, and the rest of a
/// call's configuration.
pub(crate) fn calls_that_are_configured() -> Result<()> {
    if !has(NcclVersion::new(2, 31, 2), "configurations of calls")? {
        return Ok(());
    }
    let of = CallConfig::builder;
    let protocols = [Protocol::Any, Protocol::LL, Protocol::LL128, Protocol::Simple];
    let ring = |protocol| of().algorithms(Algorithms::only([Algorithm::Ring(protocol)])).build();
    let mut configs: Vec<_> = protocols.into_iter().map(ring).collect();
    configs.push(of().ctas(Ctas::at_most(1)).build());
    configs.push(of().ctas(Ctas::between(2, 8).cluster(2)).profiler_tag(42).build());
    configs.push(of().ctas(Ctas::any().policy(CtaPolicy::Efficiency)).build());
    // If none of these is available NCCL takes another.
    let ways =
        [Algorithm::Nvls, Algorithm::CollnetDirect, Algorithm::SymmetricKernels, Algorithm::Pat];
    configs.push(of().algorithms(Algorithms::prefer(ways)).build());
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, CommConfig::default())?;
        for config in &configs {
            computes(&comm, Some(config))?;
        }
        let (mut x, mut y) = (comm.device().from_slice(&[1_u32; 64])?, comm.device().zeros(64)?);
        comm.group(|g| {
            g.with(&configs[4]).all_reduce_in_place(&mut x, Sum)?;
            g.all_reduce_in_place(&mut y, Sum)
        })?;
        assert_eq!((x.to_vec()?, y.to_vec()?), (vec![comm.size() as u32; 64], vec![0; 64]));
        comm.finish()
    })?;
    Ok(())
}

/// The event is recorded once the kernel is launched, and the other stream proceeds with it.
pub(crate) fn launches_that_are_waited_for() -> Result<()> {
    if !has(NcclVersion::new(2, 32, 3), "launch events")? {
        return Ok(());
    }
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, CommConfig::default())?;
        let (device, stream) = (comm.device().clone(), comm.device().stream()?);
        let event = device.launch_event()?;
        let config = CallConfig::builder().launched(&event).build();
        let mut x = device.from_slice(&[1_u64; 4096])?;
        let mut beside = device.zeros::<u32>(4096)?;
        for turn in 1..=20_u32 {
            comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
            stream.wait_launched(&event)?;
            stream.fill(&mut beside, turn)?;
        }
        let size = comm.size() as u64;
        assert_eq!(x.to_vec()?, vec![size.pow(20); 4096]);
        assert_eq!(beside.to_vec()?, vec![20; 4096]);
        comm.finish()
    })?;
    Ok(())
}

/// The next wait reports them, instead of NCCL's hang.
pub(crate) fn configurations_that_differ() -> Result<()> {
    let outcome = Cuda::spmd(2, |place| {
        let most = 2 + place.rank().index() as u32;
        connect(place, CommConfig::builder().ctas(Ctas::at_most(most)).build()).map(drop)
    });
    let error = outcome.expect_err("they differ");
    says(&error, &["`Ctas::between` (NCCL's maxCTAs) with 2 and 3", "configure all ranks alike"]);
    if !has(NcclVersion::new(2, 31, 2), "configurations of calls")? {
        return Ok(());
    }
    Cuda::spmd(2, |place| {
        let comm = connect(place, CommConfig::default())?;
        let tag = 1 + comm.rank().index() as u64;
        let config = CallConfig::builder().profiler_tag(tag).build();
        let mut x = comm.device().zeros::<f32>(8)?;
        comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
        let error = x.to_vec().expect_err("they differ");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        says(&error, &["the `CallConfig` of collective #0"]);
        comm.abort();
        Ok::<_, Error>(())
    })?;
    Ok(())
}
