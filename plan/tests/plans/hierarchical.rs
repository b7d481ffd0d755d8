//! An all-reduce in three steps: within the nodes, between them, within them again.

use typed_nccl_plan::build::{Axis, Buffer, Communicator, Number, PlanBuilder, Stream};
use typed_nccl_plan::ir::Reduction::Sum;
use typed_nccl_plan::ir::{CollectiveKind, Values};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// On any number of nodes of 2, 4 or 8 ranks.
pub(crate) fn all_reduce() -> PlanBuilder {
    three_steps("hierarchical all-reduce", 1.., 1..).0
}

/// The same for few nodes, where it can be said what it computes.
pub(crate) fn few_nodes() -> PlanBuilder {
    let (mut plan, d) = three_steps("hierarchical all-reduce of few nodes", [1, 2, 4], 1..);
    plan.computes(CollectiveKind::AllReduce(Sum), d.x, d.x);
    plan
}

/// Only the first rank of each node takes part in a collective between the nodes: all members of
/// that rail, and none of the others.
pub(crate) fn leaders_alone() -> PlanBuilder {
    let (mut plan, d) = declared("leaders reduce", 1.., 1..);
    plan.when(d.local.rank().eq(0), |plan| {
        plan.on(d.net).among(d.rail).all_reduce_in_place(d.x, Sum);
    });
    plan.on(d.net).among(d.node).broadcast_in_place(d.x, 0);
    plan
}

/// The first node reduces within itself, and the first rank of each node between the nodes.
pub(crate) fn first_node_and_leaders() -> PlanBuilder {
    let (mut plan, d) = declared("first node and leaders", 1.., 1..);
    plan.when(d.nodes.rank().lt(1), |plan| {
        plan.on(d.net).among(d.node).all_reduce_in_place(d.x, Sum);
    });
    plan.when(d.local.rank().eq(0), |plan| {
        plan.on(d.net).among(d.rail).all_reduce_in_place(d.x, Sum);
    });
    plan
}

/// Only the first node takes part in a collective between the nodes.
pub(crate) fn first_node_alone() -> NearMiss {
    let (mut plan, d) = declared("first node reduces", 1.., 1..);
    plan.when(d.nodes.rank().eq(0), |plan| {
        plan.on(d.net).among(d.rail).all_reduce_in_place(d.x, Sum); // the first node alone
    });
    NearMiss::new(plan, Check::CollectiveOrder)
        .smallest([2, 2])
        .ranks([0, 2])
        .lines(include_str!("hierarchical.rs"), ["the first node alone"])
        .mend("condition")
}

/// Without the last step every rank has its own part alone.
pub(crate) fn forgets_to_gather() -> NearMiss {
    let (mut plan, d) = declared("hierarchical, not gathered", [1, 2, 4], 1..);
    let own = d.own();
    plan.on(d.net).among(d.node).reduce_scatter(d.x, own, Sum);
    plan.on(d.net).among(d.rail).all_reduce_in_place(own, Sum);
    plan.computes(CollectiveKind::AllReduce(Sum), d.x, d.x); // says it
    NearMiss::new(plan, Check::Postcondition)
        .smallest([1, 2])
        .lines(include_str!("hierarchical.rs"), ["says it"])
}

/// In place, a rank receives into its own part, not its neighbour's.
pub(crate) fn at_anothers_place() -> NearMiss {
    let (mut plan, d) = declared("hierarchical, shifted", 1.., 1..);
    let size = d.local.size();
    let wrong = d.x.chunk(size, (d.local.rank() + 1) % size);
    plan.on(d.net).among(d.node).reduce_scatter(d.x, wrong, Sum); // another's place
    NearMiss::new(plan, Check::Initialised)
        .smallest([1, 2])
        .lines(include_str!("hierarchical.rs"), ["another's place"])
        .mend("rank r's part")
}

/// One device may begin with one communicator, another with the other.
pub(crate) fn two_streams() -> NearMiss {
    NearMiss::new(two_communicators("two communicators on two streams"), Check::CommunicatorOrder)
        .smallest([1, 2])
        .lines(include_str!("hierarchical.rs"), ["within the node", "between the nodes"])
        .mend("after")
}

/// The same, where NCCL is told to take the host's order.
pub(crate) fn two_streams_in_the_hosts_order() -> PlanBuilder {
    let mut plan = two_communicators("two communicators in the host's order");
    plan.launch_order_is_implicit();
    plan
}

struct Declared {
    nodes: Axis,
    local: Axis,
    len: Number,
    node: Communicator,
    rail: Communicator,
    x: Buffer<f32>,
    net: Stream,
}

impl Declared {
    /// This rank's part of `x` among the ranks of its node.
    fn own(&self) -> typed_nccl_plan::build::Slice<f32> {
        self.x.chunk(self.local.size(), self.local.rank())
    }
}

fn declared(
    name: &str,
    extent: impl Into<Values>,
    lengths: impl Into<Values>,
) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    let nodes = plan.axis("nodes", extent);
    let local = plan.axis("local", [2, 4, 8]);
    let node = plan.communicator("node", [local]);
    let rail = plan.communicator("rail", [nodes]);
    let len = plan.param("len", lengths);
    plan.promise((len % local.size()).eq(0));
    let x = plan.in_out("x", len);
    let net = plan.stream("net");
    (plan, Declared { nodes, local, len, node, rail, x, net })
}

fn three_steps(
    name: &str,
    extent: impl Into<Values>,
    lengths: impl Into<Values>,
) -> (PlanBuilder, Declared) {
    let (mut plan, d) = declared(name, extent, lengths);
    let own = d.own();
    plan.on(d.net).among(d.node).reduce_scatter(d.x, own, Sum);
    plan.on(d.net).among(d.rail).all_reduce_in_place(own, Sum);
    plan.on(d.net).among(d.node).all_gather(own, d.x);
    (plan, d)
}

fn two_communicators(name: &str) -> PlanBuilder {
    let (mut plan, d) = declared(name, 1.., 1..);
    let y = plan.in_out::<f32>("y", d.len);
    let other = plan.stream("other");
    plan.on(d.net).among(d.node).all_reduce_in_place(d.x, Sum); // within the node
    plan.on(other).among(d.rail).all_reduce_in_place(y, Sum); // between the nodes
    plan
}
