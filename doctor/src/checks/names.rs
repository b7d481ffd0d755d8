//! Names of variables, as documented by NVIDIA and by this library.

/// NCCL's, without their prefix.
const NCCL: &str = "ALGO ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE CHECK_MODE \
    CHECKS_DISABLE CHECK_POINTERS CHECK_POINTERS_DISABLE COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_ID \
    COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONF_FILE CONNECT_ROUND_ROBIN CREATE_THREAD_CONTEXT CROSS_NIC CTA_POLICY CUMEM_ENABLE \
    CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS \
    DISABLE_MEM_MANAGER DMABUF_ENABLE DUMP_GRAPH ENABLE_VERSION_CHECK ENV_PLUGIN GDRCOPY_ENABLE GDRCOPY_FLUSH_ENABLE \
    GDR_FLUSH_DISABLE GIN_ENABLE GIN_TYPE GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_FILE GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT \
    GRAPH_REGISTER GRAPH_STREAM_ORDERING HOSTID IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE \
    IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX \
    IB_HCA IB_IS_GLOBAL IB_MERGE_NICS IB_MERGE_VFS IB_PCI_RELAXED_ORDERING IB_PKEY IB_QPS_PER_CONNECTION IB_RETRY_CNT \
    IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT \
    IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P L1_SHARED_MEMORY_CARVEOUT LAUNCH_MODE \
    LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_NTHREADS LL_BUFFSIZE LOCAL_REGISTER \
    MAX_CTAS MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID \
    MNNVL_ENABLE MNNVL_UUID MULTI_RANK_GPU_ENABLE NCHANNELS_PER_NET_PEER NCHANNELS_PER_PEER NET NETDEVS_POLICY NET_DISABLE_INTRA NET_FORCE_FLUSH \
    NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_MERGE_LEVEL NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN \
    NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NVB_DISABLE NVB_PRECONNECT \
    NVLINK_UTIL_CENTRIC_SCHED_ENABLE NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE \
    OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE \
    P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PARAM_DUMP_ALL PROFILER_PLUGIN PROFILE_EVENT_MASK PROGRESS_APPENDOP_FREQ PROTO PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ADDR \
    RAS_ENABLE RAS_TIMEOUT_FACTOR RINGS RMA_DISABLE RMA_EAGER_INIT RUNTIME_CONNECT SET_CPU_STACK_SIZE SET_STACK_SIZE SET_THREAD_NAME SHM_DISABLE SHM_LOCALITY \
    SHM_MEMCPY_MODE SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC \
    SOCKET_RCVBUF SOCKET_SNDBUF STACK_SIZE SYM_CTAS SYM_GIN_KERNELS_ENABLE THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TREE_THRESHOLD TUNER_CONFIG_FILE TUNER_PLUGIN UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES WORK_FIFO_DEPTH";

/// This library's, without their prefix.
const OWN: &str = "ADDRESS CACHE CHECK FLIGHT_RECORD HEARTBEAT IFACE LIB LISTENER LOCAL_RANK NVRTC RANK SECRET SIZE TELLS TRACE";

/// The names with a prefix.
pub(super) fn known(prefix: &str) -> impl Iterator<Item = &'static str> {
    let names = if prefix == "NCCL_" { NCCL } else { OWN };
    names.split_whitespace()
}

/// The known name that a misspelt one is nearest to, if it is near.
pub(super) fn nearest(prefix: &str, name: &str) -> Option<&'static str> {
    let near = |known: &'static str| (distance(known, name), known);
    let (distance, known) = known(prefix).map(near).min()?;
    (distance <= 2 && distance * 3 <= name.len()).then_some(known)
}

/// How many letters are inserted, removed or replaced, or neighbours exchanged.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let above = &rows[i - 1];
            let replaced = above[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, known, nearest};

    #[test]
    fn misspelt_names_have_a_nearest() {
        assert_eq!(distance("PROTO", "PORTO"), 1);
        assert_eq!(nearest("NCCL_", "SOCKET_IFNAMES"), Some("SOCKET_IFNAME"));
        assert_eq!(nearest("NCCL_", "PORTO"), Some("PROTO"));
        assert_eq!(nearest("NCCL_", "SOMETHING_ELSE"), None);
    }

    #[test]
    fn what_the_documents_name_is_known() {
        let table = include_str!("../../../docs/guide/src/environment.md");
        let named = table.split("`NCCL_").skip(1);
        let names = named.map(|rest| {
            rest.split(|it: char| !it.is_ascii_uppercase() && !it.is_ascii_digit() && it != '_')
                .next()
                .unwrap_or_default()
        });
        let unknown: Vec<_> = names.filter(|name| !known("NCCL_").any(|it| it == *name)).collect();
        assert_eq!(unknown, [""; 0]);
    }
}
