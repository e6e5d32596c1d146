//! From an inventory to text. Nothing is lost: this is the shape itself.

use bowline_model::host::{Connection, Group, Host, Inventory};
use bowline_model::name::{GroupName, Labels};

use crate::tree::{Data, Node, emit};

pub(crate) fn yaml(inventory: &Inventory) -> String {
    emit(&node(inventory))
}

pub(crate) fn json(inventory: &Inventory) -> String {
    node(inventory).pretty()
}

fn node(inventory: &Inventory) -> Node {
    Node::map([
        ("hosts", Node::list(inventory.hosts.iter().map(host))),
        ("groups", Node::list(inventory.groups.iter().map(group))),
    ])
}

fn host(host: &Host) -> Node {
    let mut fields = vec![("name", Node::text(host.name.as_str()))];
    if !host.labels.is_empty() {
        fields.push(("labels", labels(&host.labels)));
    }
    if !host.groups.is_empty() {
        fields.push(("groups", names(&host.groups)));
    }
    if !host.vars.is_empty() {
        fields.push(("vars", Node::from(&host.vars)));
    }
    fields.push(("connection", connection(&host.connection)));
    Node::map(fields)
}

fn group(group: &Group) -> Node {
    let mut fields = vec![("name", Node::text(group.name.as_str()))];
    if !group.groups.is_empty() {
        fields.push(("groups", names(&group.groups)));
    }
    if !group.vars.is_empty() {
        fields.push(("vars", Node::from(&group.vars)));
    }
    Node::map(fields)
}

fn names<'a>(groups: impl IntoIterator<Item = &'a GroupName>) -> Node {
    Node::list(groups.into_iter().map(|name| Node::text(name.as_str())))
}

fn labels(labels: &Labels) -> Node {
    Node::map(labels.iter().map(|(key, value)| (key, Node::text(value))))
}

fn connection(connection: &Connection) -> Node {
    let mut fields = Vec::new();
    let through = match connection {
        Connection::Agent { agent } => {
            fields.push(("via", Node::text("agent")));
            fields.extend(agent.iter().map(|agent| ("agent", Node::text(agent.as_str()))));
            None
        }
        Connection::Ssh { address, port, user, through } => {
            fields.push(("via", Node::text("ssh")));
            fields.extend(address.iter().map(|address| ("address", Node::text(address))));
            fields.extend(port.iter().map(|port| ("port", Node::new(Data::Number((*port).into())))));
            fields.extend(user.iter().map(|user| ("user", Node::text(user))));
            Some(through)
        }
        Connection::Simulate { through } => {
            fields.push(("via", Node::text("simulate")));
            Some(through)
        }
    };
    fields.extend(through.filter(|through| !through.is_empty()).map(|through| ("through", labels(through))));
    Node::map(fields)
}

#[cfg(test)]
mod tests {
    use bowline_model::name::HostName;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_the_shape_that_the_api_has() {
        let through = Labels::new([("site".to_owned(), "fra".to_owned())].into()).expect("labels");
        let mut host = Host::named(HostName::new("web1").expect("a name"));
        host.labels = through.clone();
        host.groups = [GroupName::new("web").expect("a name")].into();
        host.vars = json!({"a": [1, null]}).as_object().cloned().expect("an object");
        let ssh = |address: &str| Connection::Ssh {
            address: Some(address.to_owned()),
            port: Some(22),
            user: Some("root".to_owned()),
            through: through.clone(),
        };
        let hosts = [ssh("10.0.0.1"), Connection::Simulate { through: through.clone() }, Connection::default()];
        let hosts = hosts.into_iter().map(|connection| Host { connection, ..host.clone() }).collect();
        let group = Group {
            name: GroupName::new("web").expect("a name"),
            groups: host.groups.clone(),
            vars: host.vars.clone(),
        };
        let inventory = Inventory { hosts, groups: vec![group] };
        let written: serde_json::Value = serde_json::from_str(&json(&inventory)).expect("JSON");
        assert_eq!(written, serde_json::to_value(&inventory).expect("JSON"));
    }
}
