package e2e

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// One policy, two languages: each tenant reads its own, as kubectl prints it.
func TestLocale(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	zh, en, free := s.namespace("zh", nil), s.namespace("en", nil), s.namespace("free", nil)
	const text = `
locale: zh
tenants:
  - name: team-zh
    namespaces: [%s]
    mode: %s
    quota: {%sA100: {gpus: 1}}
  - name: team-en
    locale: en
    namespaces: [%s]
    quota: {A100: {gpus: 1}}
`
	p := s.start(policyText(text, zh, "enforce", "", en))
	s.mustRun(zh, newPod("first", 1, on(a100)))
	p.waitUsage("team-zh", "A100", "used=1 bound=1")
	out, err := s.kubectl(s.manifest("Pod", "v1", newPod("second", 2, on(a100))), "apply", "-n", zh, "-f", "-")
	if err == nil {
		t.Fatalf("kubectl apply went through: %s", out)
	}
	s.denialText(out, "quota.gpuquota.io",
		"Error from server (Forbidden)",
		"denied the request: 租户 team-zh 的配额为 1 张 A100 GPU，已占用 1 张（已绑定 1，待调度 0，已预留 0）；此 Pod 申请 2 张，超出 2 张。\n",
		"\n命名空间 "+zh+" 中占用配额的 Pod：first（1）。\n",
		"\n目前减少 GPU 数量或换用其他型号都无法通过：请等待 GPU 释放，删除占用 GPU 的 Pod，或联系集群管理员增加配额。")
	s.mustRefuse(en, newPod("second", 2, on(a100)), "team-en may hold 1 A100 GPU and holds 0")
	s.mustRefuse(free, newPod("p", 1, on(a100)), "命名空间 "+free+" 不属于任何租户")

	// A warning arrives whole, however long: the API server's limit is in characters, ours too.
	classes := ""
	for _, class := range listedClasses {
		classes += class + ": {gpus: 1}, "
	}
	p.setPolicy(policyText(text, zh, "warn", classes, en))
	out, err = s.kubectl(s.manifest("Pod", "v1", newPod("third", 2, on(a100), held)), "apply", "-n", zh, "-f", "-")
	if want := "Warning: 在 enforce 模式下会被拒绝：租户 team-zh 的配额为 1 张 A100 GPU，已占用 1 张（已绑定 1，待调度 0，已预留 0）；此 Pod 申请 2 张，超出 2 张。\n"; err != nil || !strings.Contains(out, want) {
		t.Errorf("the warning is not\n%sbut (%v)\n%s", want, err, out)
	}
	out, err = s.kubectl(s.manifest("Pod", "v1", newPod("fourth", 1, on(h100), held)), "apply", "-n", zh, "-f", "-")
	if err != nil {
		t.Fatalf("kubectl apply: %v %s", err, out)
	}
	whole, lines := "", 0
	for line := range strings.Lines(out) {
		if piece, found := strings.CutPrefix(line, "Warning: "); found {
			piece = strings.TrimSuffix(piece, "\n")
			if n := utf8.RuneCountInString(piece); n > 256 {
				t.Errorf("a warning of %d characters: %s", n, piece)
			}
			whole += piece
			lines++
		}
	}
	want := "在 enforce 模式下会被拒绝：租户 team-zh 没有 H100-80GB 型号 GPU 的配额，只有 " +
		strings.Join(listedClasses, "、") +
		"、A100 的配额：请用 nodeSelector 选择其中一种，或联系集群管理员申请 H100-80GB 的配额。"
	if lines < 2 || strings.ReplaceAll(whole, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%d warnings, together\n%s\nwant\n%s", lines, whole, want)
	}
}

// listedClasses are classes that no node of the tests has.
var listedClasses = []string{
	"K80", "M60", "P4", "P40", "P100", "V100", "T4", "T4G", "A2", "A10", "A10G", "A16", "A30", "A40", "A800",
	"L4", "L20", "L40", "L40S", "H20", "H200", "H800", "GH200", "B200", "B300", "GB200", "GB300",
	"Quadro-RTX-4000", "Quadro-RTX-5000", "Quadro-RTX-6000", "Quadro-RTX-8000", "RTX-A4000", "RTX-A4500",
	"RTX-A5000", "RTX-A6000", "RTX-4000-Ada", "RTX-4500-Ada", "RTX-5000-Ada", "RTX-6000-Ada", "RTX-PRO-6000",
	"TITAN-RTX", "TITAN-V", "RTX-2080-Ti", "RTX-3080", "RTX-3080-Ti", "RTX-3090", "RTX-3090-Ti", "RTX-4080",
	"RTX-4080-SUPER", "RTX-4090",
}
