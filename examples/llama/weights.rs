//! A small configuration, and weights that are the same on every rank.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::Config;

pub(crate) fn config() -> Config {
    Config {
        hidden_size: 64,
        intermediate_size: 160,
        vocab_size: 96,
        num_hidden_layers: 3,
        num_attention_heads: 8,
        num_key_value_heads: 4,
        use_flash_attn: false,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: 32,
        tie_word_embeddings: false,
    }
}

/// Under the names that checkpoints have; `VarBuilder::from_mmaped_safetensors` loads those.
pub(crate) fn random(config: &Config, device: &Device) -> Result<VarBuilder<'static>> {
    let (hidden, inner, vocabulary) =
        (config.hidden_size, config.intermediate_size, config.vocab_size);
    let kv = hidden / config.num_attention_heads * config.num_key_value_heads;
    let mut all = HashMap::new();
    let mut add = |name: String, shape: &[usize]| {
        let weight = random_weight(all.len() as u64, shape, device)?;
        all.insert(format!("{name}.weight"), weight);
        Result::Ok(())
    };
    add("model.embed_tokens".into(), &[vocabulary, hidden])?;
    add("model.norm".into(), &[hidden])?;
    add("lm_head".into(), &[vocabulary, hidden])?;
    for layer in 0..config.num_hidden_layers {
        for (name, shape) in [
            ("input_layernorm", &[hidden][..]),
            ("self_attn.q_proj", &[hidden, hidden]),
            ("self_attn.k_proj", &[kv, hidden]),
            ("self_attn.v_proj", &[kv, hidden]),
            ("self_attn.o_proj", &[hidden, hidden]),
            ("post_attention_layernorm", &[hidden]),
            ("mlp.gate_proj", &[inner, hidden]),
            ("mlp.up_proj", &[inner, hidden]),
            ("mlp.down_proj", &[hidden, inner]),
        ] {
            add(format!("model.layers.{layer}.{name}"), shape)?;
        }
    }
    Ok(VarBuilder::from_tensors(all, DType::F32, device))
}

/// Between -1/4 and 1/4, around 1 for norms.
fn random_weight(seed: u64, shape: &[usize], device: &Device) -> Result<Tensor> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 25) as f32 - 0.25
    };
    let around = if shape.len() == 1 { 1.0 } else { 0.0 };
    let elements = (0..shape.iter().product()).map(|_| around + next()).collect();
    Tensor::from_vec(elements, shape, device)
}
