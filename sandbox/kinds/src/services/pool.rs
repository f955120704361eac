//! Allocated cluster IPs and node ports, by service.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use serde_json::Value;

/// The range of cluster IPs, as in the `ServiceCIDR` object.
pub const RANGE: &str = "10.0.0.0/16";
const NETWORK: u32 = u32::from_be_bytes([10, 0, 0, 0]);
const ADDRESSES: u32 = 1 << 16;
/// Addresses below this offset are assigned only on request, as on a real server.
const FIRST_ADDRESS: u32 = 256;

/// The range of node ports.
pub(crate) const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// Ports below this one are assigned only on request.
const FIRST_PORT: u16 = 30_086;

/// The addresses and ports of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocation {
    pub addresses: BTreeSet<Ipv4Addr>,
    pub ports: BTreeSet<u16>,
}

impl Allocation {
    /// Returns the addresses and ports of a stored service.
    pub fn of(service: &Value) -> Self {
        let list = |pointer: &str| {
            let list = service.pointer(pointer).and_then(Value::as_array);
            list.into_iter().flatten()
        };
        let number = |value: Option<&Value>| u16::try_from(value?.as_u64()?).ok();
        let addresses = list("/spec/clusterIPs");
        let own = service.pointer("/spec/healthCheckNodePort");
        let ports = list("/spec/ports").filter_map(|port| number(port.get("nodePort")));
        Self {
            addresses: addresses
                .filter_map(|address| address.as_str()?.parse().ok())
                .collect(),
            ports: ports.chain(number(own)).filter(|port| *port != 0).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }
}

/// All allocated addresses and ports: of stored services, or reserved by running requests.
#[derive(Debug)]
pub struct Pool {
    /// By `namespace/name`.
    stored: HashMap<String, Allocation>,
    /// By the number of the reservation.
    reserved: BTreeMap<u64, Allocation>,
    addresses: HashMap<Ipv4Addr, usize>,
    ports: HashMap<u16, usize>,
    next_address: u32,
    next_port: u16,
    next_reservation: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            stored: HashMap::new(),
            reserved: BTreeMap::new(),
            addresses: HashMap::new(),
            ports: HashMap::new(),
            next_address: FIRST_ADDRESS,
            next_port: FIRST_PORT,
            next_reservation: 0,
        }
    }
}

impl Pool {
    /// Records the addresses and ports of a service. Empty for deleted services.
    pub fn store(&mut self, service: String, allocation: Allocation) {
        self.count(&allocation);
        let before = if allocation.is_empty() {
            self.stored.remove(&service)
        } else {
            self.stored.insert(service, allocation)
        };
        if let Some(before) = before {
            self.discount(&before);
        }
    }

    /// Reserves addresses and ports until [`Pool::release`].
    pub fn reserve(&mut self, allocation: Allocation) -> u64 {
        self.count(&allocation);
        let number = self.next_reservation;
        self.next_reservation += 1;
        self.reserved.insert(number, allocation);
        number
    }

    /// Ends a reservation, after its service was stored or rejected.
    pub fn release(&mut self, reservation: u64) {
        if let Some(allocation) = self.reserved.remove(&reservation) {
            self.discount(&allocation);
        }
    }

    pub(crate) fn has_address(&self, address: Ipv4Addr) -> bool {
        self.addresses.contains_key(&address)
    }

    pub fn has_port(&self, port: u16) -> bool {
        self.ports.contains_key(&port)
    }

    /// Returns the next free address. The range is used cyclically, so that a released one is not
    /// reused immediately.
    pub fn free_address(&mut self) -> Option<Ipv4Addr> {
        for _ in FIRST_ADDRESS..ADDRESSES - 1 {
            let address = Ipv4Addr::from(NETWORK + self.next_address);
            self.next_address += 1;
            if self.next_address == ADDRESSES - 1 {
                self.next_address = FIRST_ADDRESS;
            }
            if !self.has_address(address) {
                return Some(address);
            }
        }
        None
    }

    /// Returns the next free port that is not in `besides`.
    pub(crate) fn free_port(&mut self, besides: &BTreeSet<u16>) -> Option<u16> {
        for _ in FIRST_PORT..=*PORTS.end() {
            let port = self.next_port;
            self.next_port = if port == *PORTS.end() {
                FIRST_PORT
            } else {
                port + 1
            };
            if !self.has_port(port) && !besides.contains(&port) {
                return Some(port);
            }
        }
        None
    }

    fn count(&mut self, allocation: &Allocation) {
        for address in &allocation.addresses {
            *self.addresses.entry(*address).or_default() += 1;
        }
        for port in &allocation.ports {
            *self.ports.entry(*port).or_default() += 1;
        }
    }

    fn discount(&mut self, allocation: &Allocation) {
        for address in &allocation.addresses {
            if let Some(count) = self.addresses.get_mut(address) {
                *count -= 1;
                if *count == 0 {
                    self.addresses.remove(address);
                }
            }
        }
        for port in &allocation.ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with_port(port: u16) -> Allocation {
        Allocation::of(&json!({ "spec": { "ports": [{ "nodePort": port }] } }))
    }

    #[test]
    fn released_ports_are_free_again() {
        let mut pool = Pool::default();
        let reservation = pool.reserve(with_port(30_100));
        pool.store("n/a".to_owned(), with_port(30_100));
        pool.release(reservation);
        assert!(pool.has_port(30_100));
        pool.store("n/a".to_owned(), with_port(30_200));
        assert!(!pool.has_port(30_100) && pool.has_port(30_200));
        pool.store("n/a".to_owned(), Allocation::default());
        assert!(!pool.has_port(30_200));
    }

    #[test]
    fn allocation_fails_when_all_ports_are_taken() {
        let mut pool = Pool::default();
        let mut taken = BTreeSet::new();
        while let Some(port) = pool.free_port(&taken) {
            assert!(PORTS.contains(&port) && taken.insert(port));
        }
        assert_eq!(taken.len(), usize::from(PORTS.end() - FIRST_PORT) + 1);
    }

    #[test]
    fn addresses_are_assigned_in_turn() {
        let mut pool = Pool::default();
        let first = pool.free_address().unwrap();
        assert_eq!(first, Ipv4Addr::new(10, 0, 1, 0));
        assert_eq!(pool.free_address(), Some(Ipv4Addr::new(10, 0, 1, 1)));
    }
}
