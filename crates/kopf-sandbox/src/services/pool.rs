//! Cluster IPs and node ports: which are taken, and by which service.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use serde_json::Value;

/// The range of cluster IPs, as the `ServiceCIDR` object has it.
pub(crate) const RANGE: &str = "10.0.0.0/16";
const NETWORK: u32 = u32::from_be_bytes([10, 0, 0, 0]);
const ADDRESSES: u32 = 1 << 16;
/// Addresses up to this offset are only taken by services that ask for them, as on a real server.
const FIRST_ADDRESS: u32 = 256;

/// The range of node ports.
pub(crate) const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// Ports up to this one are only taken by services that ask for them.
const FIRST_PORT: u16 = 30_086;

/// The addresses and ports of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) addresses: BTreeSet<Ipv4Addr>,
    pub(crate) ports: BTreeSet<u16>,
}

impl Holdings {
    /// Returns what a stored service has.
    pub(crate) fn of(service: &Value) -> Self {
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

/// All addresses and ports that are taken: by stored services, or reserved by requests that are under way.
#[derive(Debug)]
pub(crate) struct Pool {
    /// By `namespace/name`.
    stored: HashMap<String, Holdings>,
    /// By the number of the reservation.
    reserved: BTreeMap<u64, Holdings>,
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
    /// Records what a service has now. Empty holdings: it is gone, or has nothing.
    pub(crate) fn store(&mut self, service: String, holdings: Holdings) {
        self.count(&holdings);
        let before = if holdings.is_empty() {
            self.stored.remove(&service)
        } else {
            self.stored.insert(service, holdings)
        };
        if let Some(before) = before {
            self.discount(&before);
        }
    }

    /// Reserves addresses and ports until [`Pool::release`].
    pub(crate) fn reserve(&mut self, holdings: Holdings) -> u64 {
        self.count(&holdings);
        let number = self.next_reservation;
        self.next_reservation += 1;
        self.reserved.insert(number, holdings);
        number
    }

    /// Ends a reservation: its service is stored, or never will be.
    pub(crate) fn release(&mut self, reservation: u64) {
        if let Some(holdings) = self.reserved.remove(&reservation) {
            self.discount(&holdings);
        }
    }

    pub(crate) fn has_address(&self, address: Ipv4Addr) -> bool {
        self.addresses.contains_key(&address)
    }

    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.ports.contains_key(&port)
    }

    /// Returns the next free address. They are taken in turn, so that one is not used again at once.
    pub(crate) fn free_address(&mut self) -> Option<Ipv4Addr> {
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

    fn count(&mut self, holdings: &Holdings) {
        for address in &holdings.addresses {
            *self.addresses.entry(*address).or_default() += 1;
        }
        for port in &holdings.ports {
            *self.ports.entry(*port).or_default() += 1;
        }
    }

    fn discount(&mut self, holdings: &Holdings) {
        for address in &holdings.addresses {
            if let Some(count) = self.addresses.get_mut(address) {
                *count -= 1;
                if *count == 0 {
                    self.addresses.remove(address);
                }
            }
        }
        for port in &holdings.ports {
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

    fn with_port(port: u16) -> Holdings {
        Holdings::of(&json!({ "spec": { "ports": [{ "nodePort": port }] } }))
    }

    #[test]
    fn ports_are_free_again_when_no_service_has_them() {
        let mut pool = Pool::default();
        let reservation = pool.reserve(with_port(30_100));
        pool.store("n/a".to_owned(), with_port(30_100));
        pool.release(reservation);
        assert!(pool.has_port(30_100));
        pool.store("n/a".to_owned(), with_port(30_200));
        assert!(!pool.has_port(30_100) && pool.has_port(30_200));
        pool.store("n/a".to_owned(), Holdings::default());
        assert!(!pool.has_port(30_200));
    }

    #[test]
    fn free_ports_end_when_all_are_taken() {
        let mut pool = Pool::default();
        let mut taken = BTreeSet::new();
        while let Some(port) = pool.free_port(&taken) {
            assert!(PORTS.contains(&port) && taken.insert(port));
        }
        assert_eq!(taken.len(), usize::from(PORTS.end() - FIRST_PORT) + 1);
    }

    #[test]
    fn addresses_are_taken_in_turn() {
        let mut pool = Pool::default();
        let first = pool.free_address().unwrap();
        assert_eq!(first, Ipv4Addr::new(10, 0, 1, 0));
        assert_eq!(pool.free_address(), Some(Ipv4Addr::new(10, 0, 1, 1)));
    }
}
