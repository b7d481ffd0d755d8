//! Configurations of single calls: what NCCL receives, and what is refused before it is called.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Barrier;

use fake_nccl::Call;
use nccl_sys::Function::{
    ncclAllGatherConfig, ncclAllReduce, ncclAllReduceConfig, ncclAlltoAllConfig,
    ncclBroadcastConfig, ncclGatherConfig, ncclGroupEnd, ncclReduceConfig, ncclReduceScatterConfig,
    ncclScatterConfig,
};
use nccl_sys::{Function, NCCL_CONFIG_UNDEF_INT, ncclCollConfig_t};
use typed_nccl::{
    Algorithm, Algorithms, AnyDevice, CallConfig, Clique, Communicator, CtaPolicy, Ctas, Cuda,
    Error, LaunchEvent, Protocol, Result, Root, Sum,
};

use crate::common::{alone, calls, clear, connect, count, handle, says};
use crate::scenario::{NEWEST, cuda, on, release};

type Comm = Communicator<Cuda<AnyDevice>>;

/// All options, each with a distinct value.
fn all() -> CallConfig {
    let ctas = Ctas::between(3, 17).cluster(5).multicast(9).policy(CtaPolicy::Zero);
    let ways = [Algorithm::Ring(Protocol::LL128), Algorithm::Nvls, Algorithm::Tree(Protocol::Any)];
    CallConfig::builder()
        .ctas(ctas)
        .algorithms(Algorithms::prefer(ways))
        .profiler_tag((1 << 62) + 7)
        .build()
}

fn int(call: &Call, field: &str) -> c_int {
    call.field::<ncclCollConfig_t, c_int>("config", field)
}

fn selection(call: &Call) -> Option<String> {
    let address = call.field::<ncclCollConfig_t, usize>("config", "algSelection");
    let text = std::ptr::with_exposed_provenance::<c_char>(address);
    // SAFETY: texts are never freed, and end with a zero.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[track_caller]
fn has_all(call: &Call) {
    let fields = ["minCTAs", "maxCTAs", "cgaClusterSize", "nvlsCTAs", "CTAPolicy"];
    assert_eq!(fields.map(|field| int(call, field)), [3, 17, 5, 9, 2], "{}", call.function);
    assert_eq!(selection(call).as_deref(), Some("RING_LL128,NVLS_SIMPLE,TREE"));
    assert_eq!(int(call, "forceAlgSelection"), 0);
    let tag = call.field::<ncclCollConfig_t, u64>("config", "userProfilerTag");
    assert_eq!(tag, (1 << 62) + 7);
    assert_eq!(call.field::<ncclCollConfig_t, usize>("config", "ext"), 0);
    assert_eq!(call.field::<ncclCollConfig_t, usize>("config", "launchCompletionEvent"), 0);
}

fn only(function: Function) -> Call {
    let mut calls = calls(function);
    assert_eq!(calls.len(), 1, "{function}: {calls:?}");
    calls.remove(0)
}

const EACH: [Function; 8] = [
    ncclAllReduceConfig,
    ncclBroadcastConfig,
    ncclReduceConfig,
    ncclAllGatherConfig,
    ncclReduceScatterConfig,
    ncclAlltoAllConfig,
    ncclGatherConfig,
    ncclScatterConfig,
];

/// Each collective once, all with this configuration, including those for which NCCL chooses no
/// algorithm.
macro_rules! each {
    ($to:expr, $x:ident, $y:ident) => {{
        $to.all_reduce_in_place(&mut $x[0], Sum)?;
        $to.broadcast_in_place(&mut $x[1], 0)?;
        $to.reduce_in_place(&mut $x[2], Sum, 0)?;
        $to.all_gather(&$y[0], &mut $x[3])?;
        $to.reduce_scatter(&$y[0], &mut $x[4], Sum)?;
        $to.all_to_all(&$y[0], &mut $x[5])?;
        $to.gather_into(&$y[0], Root::Here(&mut $x[6]))?;
        $to.scatter_in_place(&mut $x[7], 0)?;
    }};
}

#[test]
fn every_option_arrives_at_every_collective() {
    on(NEWEST, || {
        let comm: Comm = alone()?;
        let device = comm.device();
        let mut x = (0..8).map(|_| device.zeros::<f32>(4)).collect::<Result<Vec<_>>>()?;
        let y = [device.zeros::<f32>(4)?];
        let config = all();
        each!(comm.with(&config), x, y);
        EACH.into_iter().for_each(|function| has_all(&only(function)));
        assert_eq!(count(ncclAllReduce), 0);

        clear();
        let other = device.stream()?;
        each!(comm.on(&other).with(&config), x, y);
        for function in EACH {
            let call = only(function);
            has_all(&call);
            assert_eq!(call.pointer("stream") as u64, handle(&other)?);
        }

        // Nothing of it affects the next call.
        clear();
        comm.all_reduce_in_place(&mut x[0], Sum)?;
        assert_eq!((count(ncclAllReduce), count(ncclAllReduceConfig)), (1, 0));
        comm.finish()
    });
}

#[test]
fn every_option_arrives_in_a_group() {
    on(NEWEST, || {
        let mut comm: Comm = alone()?;
        let device = comm.device().clone();
        let mut x = (0..2).map(|_| device.zeros::<f32>(4)).collect::<Result<Vec<_>>>()?;
        let (mut plain, y) = (device.zeros::<f32>(4)?, device.zeros::<f32>(4)?);
        let config = CallConfig::builder().ctas(Ctas::at_most(2)).profiler_tag(9).build();
        let [first, second] = &mut x[..] else { panic!("two") };
        clear();
        comm.group(|g| {
            g.with(&config).all_reduce_in_place(first, Sum)?;
            g.all_reduce_in_place(&mut plain, Sum)?;
            let mut configured = g.with(&config);
            configured.all_gather(&y, second)?;
            assert_eq!(configured.size(), 1);
            Ok::<_, Error>(())
        })?;
        for function in [ncclAllReduceConfig, ncclAllGatherConfig] {
            let call = only(function);
            assert_eq!([int(&call, "minCTAs"), int(&call, "maxCTAs")], [1, 2]);
            assert_eq!(call.field::<ncclCollConfig_t, u64>("config", "userProfilerTag"), 9);
            assert_eq!(int(&call, "CTAPolicy"), NCCL_CONFIG_UNDEF_INT);
            // Options that are not set are not forced.
            assert_eq!((selection(&call), int(&call, "forceAlgSelection")), (None, 1));
        }
        assert_eq!((count(ncclAllReduce), count(ncclGroupEnd)), (1, 1));
        comm.finish()
    });
}

#[test]
fn every_option_arrives_on_every_rank_of_a_clique() {
    on(NEWEST, || {
        let clique = Clique::init(Cuda::open_each(&[3, 0, 2])?)?;
        let (x, mut y) = (clique.alloc::<f32>(12)?, clique.alloc::<f32>(12)?);
        let mut z = clique.alloc::<f32>(36)?;
        let config = all();
        clear();
        let configured = clique.with(&config);
        configured.all_reduce(&x, &mut y, Sum)?;
        configured.broadcast_in_place(&mut y, 0)?;
        configured.reduce_in_place(&mut y, Sum, 1)?;
        configured.all_gather(&x, &mut z)?;
        configured.reduce_scatter(&z, &mut y, Sum)?;
        configured.all_to_all(&x, &mut y)?;
        let functions = [
            ncclAllReduceConfig,
            ncclBroadcastConfig,
            ncclReduceConfig,
            ncclAllGatherConfig,
            ncclReduceScatterConfig,
            ncclAlltoAllConfig,
        ];
        for function in functions {
            let calls = calls(function);
            assert_eq!(calls.len(), 3, "{function}");
            calls.iter().for_each(has_all);
        }
        assert_eq!((count(ncclAllReduce), count(ncclGroupEnd)), (0, 6));
        clique.finish()
    });
}

#[test]
fn algorithms_go_by_nccls_names() {
    on(NEWEST, || {
        let comm: Comm = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let ring = |protocol| vec![Algorithm::Ring(protocol)];
        for (ways, name) in [
            (ring(Protocol::Any), "RING"),
            (ring(Protocol::LL), "RING_LL"),
            (ring(Protocol::Simple), "RING_SIMPLE"),
            (
                vec![Algorithm::CollnetDirect, Algorithm::CollnetChain],
                "COLLNET_DIRECT,COLLNET_CHAIN",
            ),
            (vec![Algorithm::NvlsTree, Algorithm::SymmetricKernels], "NVLSTREE,SYMK"),
            (vec![Algorithm::Tree(Protocol::LL128)], "TREE_LL128"),
        ] {
            clear();
            let config = CallConfig::builder().algorithms(Algorithms::only(ways)).build();
            comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
            let call = only(ncclAllReduceConfig);
            assert_eq!(selection(&call).as_deref(), Some(name));
            assert_eq!(int(&call, "forceAlgSelection"), 1);
        }
        comm.finish()
    });
}

/// Each is refused by name, nothing is called, and the communicator is unchanged.
#[test]
fn what_nccl_would_not_take_is_refused() {
    on(NEWEST, || {
        let mut comm: Comm = alone()?;
        let device = comm.device().clone();
        let (mut x, y) = (device.zeros::<f32>(4)?, device.zeros::<f32>(4)?);
        let of = CallConfig::builder;
        let tag = of().profiler_tag(1 << 63).build();
        let tree = of().algorithms(Algorithms::only([Algorithm::Tree(Protocol::Any)])).build();
        let ring = of().algorithms(Algorithms::only([Algorithm::Ring(Protocol::Any)])).build();
        let none = of().algorithms(Algorithms::only([])).build();
        let wide = of().ctas(Ctas::between(2, 1)).build();
        clear();
        let refused = comm.with(&tag).all_reduce_in_place(&mut x, Sum);
        assert_error!(refused, Unsupported, "profiler_tag", "below 2^63", "configured.rs:");
        let refused = comm.with(&tree).broadcast_in_place(&mut x, 0);
        assert_error!(refused, Unsupported, "has none of broadcast's algorithms", "Tree(Any)");
        let refused = comm.with(&ring).all_to_all(&y, &mut x);
        assert_error!(refused, Unsupported, "has none of all_to_all's algorithms");
        let refused = comm.with(&none).all_reduce_in_place(&mut x, Sum);
        assert_error!(refused, Unsupported, "has none of all_reduce's algorithms");
        let refused = comm.with(&wide).all_reduce_in_place(&mut x, Sum);
        assert_error!(refused, Unsupported, "`Ctas::between(2, 1)`");
        // In a group, the whole group is refused.
        let mut z = device.zeros::<f32>(4)?;
        let refused = comm.group(|g| {
            g.all_reduce_in_place(&mut x, Sum)?;
            g.with(&tree).broadcast_in_place(&mut z, 0)
        });
        assert_error!(refused, Unsupported, "has none of broadcast's algorithms");
        let clusters = [2, 4].map(|size| of().ctas(Ctas::any().cluster(size)).build());
        let refused = comm.group(|g| {
            g.with(&clusters[0]).all_reduce_in_place(&mut x, Sum)?;
            g.with(&clusters[1]).all_reduce_in_place(&mut z, Sum)
        });
        assert_error!(refused, Unsupported, "one cluster size", "clusters of 2 and 4");
        let event = device.launch_event()?;
        let launched = of().launched(&event).build();
        let refused = comm.group(|g| {
            g.with(&launched).all_reduce_in_place(&mut x, Sum)?;
            g.with(&launched).all_reduce_in_place(&mut z, Sum)
        });
        assert_error!(refused, Unsupported, "one launch event at most", "have a launch event");
        let elsewhere = of().launched(&Cuda::<AnyDevice>::any(1)?.launch_event()?).build();
        let refused = comm.with(&elsewhere).all_reduce_in_place(&mut x, Sum);
        assert_error!(refused, Unsupported, "a launch event", "of cuda:0", "it is of cuda:1");
        assert_eq!(EACH.into_iter().chain([ncclAllReduce]).map(count).sum::<usize>(), 0);
        comm.with(&ring).all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    });
}

#[test]
fn a_launch_event_is_recorded_and_waited_for() {
    on(NEWEST, || {
        let comm: Comm = alone()?;
        let device = comm.device().clone();
        let (mut x, stream) = (device.zeros::<f32>(4)?, device.stream()?);
        let event = device.launch_event()?;
        let config = CallConfig::builder().launched(&event).build();
        clear();
        comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
        let call = only(ncclAllReduceConfig);
        let given = call.field::<ncclCollConfig_t, usize>("config", "launchCompletionEvent");
        assert_ne!(given, 0);
        clear();
        stream.wait_launched(&event)?;
        assert!(cuda().called().contains(&"cuStreamWaitEvent"));
        // NCCL may record the event again, so it stays while the communicator lives.
        drop((event, config));
        let new = device.launch_event()?;
        let config = CallConfig::builder().launched(&new).build();
        comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
        let calls = calls(ncclAllReduceConfig);
        let other = calls[0].field::<ncclCollConfig_t, usize>("config", "launchCompletionEvent");
        assert_ne!(other, given);
        comm.finish()
    });
}

/// NCCL gets the program's own event, and the program waits for it by CUDA's calls.
#[test]
fn a_launch_event_of_another_library() {
    on(NEWEST, || {
        let comm: Comm = alone()?;
        let (device, mut x) = (comm.device().clone(), comm.device().zeros::<f32>(4)?);
        let event = device.launch_event()?;
        let config = CallConfig::builder().launched(&event).build();
        clear();
        comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
        let field =
            |call: &Call| call.field::<ncclCollConfig_t, usize>("config", "launchCompletionEvent");
        let address = field(&only(ncclAllReduceConfig));
        let raw = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: it is an event of this GPU, which the communicator keeps.
        let theirs = unsafe { LaunchEvent::from_raw(&device, raw) };
        let config = CallConfig::builder().launched(&theirs).build();
        clear();
        comm.with(&config).all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(field(&only(ncclAllReduceConfig)), address);
        let refused = device.stream()?.wait_launched(&theirs);
        assert_error!(refused, Other, "`Cuda::launch_event`", "cudaStreamWaitEvent");
        comm.finish()
    });
}

/// CUDA does not record it at launches of a graph.
#[test]
fn a_launch_event_is_not_captured() {
    on(NEWEST, || {
        let mut comm: Comm = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let config = CallConfig::builder().launched(&comm.device().launch_event()?).build();
        let refused = comm.capture(|g| g.with(&config).all_reduce_in_place(&mut x, Sum));
        assert_error!(refused, NotCapturable, "all_reduce", "a launch event", "leave");
        assert_eq!(count(ncclAllReduceConfig), 0);
        comm.finish()
    });
}

#[test]
fn an_older_release_has_none() {
    on(release("2.30.7"), || {
        let comm: Comm = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let config = CallConfig::default();
        let refused = comm.with(&config).all_reduce_in_place(&mut x, Sum);
        assert_error!(refused, Unsupported, "a `CallConfig` needs NCCL 2.31.2", "2.30.7 is loaded");
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    });
    on(release("2.31.2"), || {
        let comm: Comm = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let config = CallConfig::builder().launched(&comm.device().launch_event()?).build();
        let refused = comm.with(&config).all_reduce_in_place(&mut x, Sum);
        let why = "launchCompletionEvent) needs NCCL 2.32.3; 2.31.2 is loaded";
        assert_error!(refused, Unsupported, why);
        comm.with(&all()).all_reduce_in_place(&mut x, Sum)?;
        has_all(&only(ncclAllReduceConfig));
        comm.finish()
    });
}

#[test]
fn calls_that_are_configured_differently_are_told() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        let errors = Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            let alike = CallConfig::builder().profiler_tag(3).build();
            comm.with(&alike).all_reduce_in_place(&mut x, Sum)?;
            let most = 1 + comm.rank().index() as u32;
            let own = CallConfig::builder().ctas(Ctas::at_most(most)).build();
            comm.with(&own).all_reduce_in_place(&mut x, Sum)?;
            together.wait();
            Ok::<_, Error>(comm.sync(comm.stream()).expect_err("they differ"))
        })?;
        for error in &errors {
            assert!(matches!(error, Error::Mismatch(_)), "{error}");
            says(error, &["the `CallConfig` of collective #1 on World differs", "has ended"]);
        }
        Ok(())
    });
}
