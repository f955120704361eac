//! Division of objects among replicas: shards of the hash space, and the replicas that hold them.
//!
//! An object belongs to the shard whose range contains the 64-bit FNV-1a hash of its uid. This is the
//! hash of `shardSelector` in Kubernetes 1.36, so servers can filter by the same ranges. Each shard has
//! a Lease, taken as in a [leader election](crate::leading). Each replica also has a member Lease, by
//! which the others know how many there are. [`Group`] decides which shards a replica takes and releases.

mod group;
mod ranges;

pub use group::{Group, Listed, Plan, Role};
pub use ranges::Ranges;

/// Number of shards of `auto`: divisible among 1, 2, 3, 4, 6 and 12 replicas without a remainder.
pub const AUTO: u32 = 12;

/// Upper bound for the number of shards. Each has a Lease that is renewed every few seconds.
pub const MAX: u32 = 256;

/// Returns the 64-bit FNV-1a hash.
///
/// ```
/// assert_eq!(kopf_core::sharding::hash(b"a"), 0xaf63_dc4c_8601_ec8c);
/// ```
pub fn hash(uid: &[u8]) -> u64 {
    uid.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the shard of a hash. Shards are ranges of equal size, in order.
pub fn shard_of(hash: u64, count: u32) -> u32 {
    let shard = (u128::from(hash) * u128::from(count.max(1))) >> 64;
    u32::try_from(shard).unwrap_or_default()
}

/// Returns the first hash of a shard; for `shard == count`, 2^64.
fn start_of(shard: u32, count: u32) -> u128 {
    (u128::from(shard) << 64).div_ceil(u128::from(count.max(1)))
}

/// Returns the shard selector of these shards, in ascending order, with adjacent ranges joined. Empty
/// for no shards.
///
/// ```
/// let selector = kopf_core::sharding::selector([0], 2);
/// assert_eq!(
///     selector,
///     "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
/// );
/// ```
pub fn selector(shards: impl IntoIterator<Item = u32>, count: u32) -> String {
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for shard in shards {
        let (start, end) = (start_of(shard, count), start_of(shard + 1, count));
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    let ranges: Vec<String> = ranges
        .into_iter()
        .map(|(start, end)| {
            format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')")
        })
        .collect();
    ranges.join(" || ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_in_the_range_of_its_shard() {
        for count in [1, 2, 3, 7, 12, 256] {
            for hash in [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX] {
                let shard = shard_of(hash, count);
                assert!(shard < count);
                let range = start_of(shard, count)..start_of(shard + 1, count);
                assert!(range.contains(&u128::from(hash)), "{hash} of {count}");
            }
        }
    }

    #[test]
    fn shards_of_uuids_are_of_similar_size() {
        let mut sizes = [0_u32; 4];
        let mut random = 1_u128;
        for _ in 0..4_000 {
            random = random.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645) + 1;
            let digits = format!("{:032x}", random ^ (random >> 64));
            let uid = format!(
                "{}-{}-4{}-8{}-{}",
                &digits[..8],
                &digits[8..12],
                &digits[12..15],
                &digits[15..18],
                &digits[18..30]
            );
            sizes[shard_of(hash(uid.as_bytes()), 4) as usize] += 1;
        }
        assert!(
            sizes.iter().all(|size| (700..1_300).contains(size)),
            "{sizes:?}"
        );
    }

    #[test]
    fn adjacent_ranges_are_joined() {
        assert_eq!(selector([], 4), "");
        let all = "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')";
        assert_eq!(selector([0, 1, 2, 3], 4), all);
        let two = selector([0, 2], 4);
        assert_eq!(two.matches("shardRange").count(), 2);
        assert!(two.contains(" || "));
    }
}
