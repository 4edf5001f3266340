// SPDX-License-Identifier: Apache-2.0

package fleet

// Processes returns the PIDs of the processes of a fleet by name: "etcd", "a/kube-apiserver".
func (f *Fleet) Processes() map[string]int {
	pids := map[string]int{etcdBinary: f.provider.(*processes).etcd.handle.Pid}
	for _, c := range f.Clusters() {
		for _, p := range c.machine.(*programs).running {
			pids[c.Name()+"/"+p.name()] = p.handle.Pid
		}
	}
	return pids
}
