//! What must not compile with `typed-nccl`, how the refusal reads, and the twin that does compile.
