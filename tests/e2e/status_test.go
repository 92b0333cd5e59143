package e2e

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const statusName = "gpuquota-status"

// status gives the status as people read it.
func (p *program) status() (string, error) {
	status, err := client.CoreV1().ConfigMaps(p.namespace).Get(p.Context(), statusName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return status.Data["status.yaml"], nil
}
