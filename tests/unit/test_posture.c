#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json_keep.h"
#include "quota/arena.h"
#include "quota/field.h"
#include "quota/posture.h"
#include "tests/unit/fail_alloc.h"
#include "tests/unit/quota_testing.h"

/* Through its keep tree, as in a review. */
static int decode(const char *single_quoted, const struct gq_json_keep *keep,
		  struct gq_posture **ret_posture, struct gq_err *err)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 22);
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	char *json = json_of(single_quoted);

	assert_int_equal(prune(json, strlen(json), keep, &kept), 0);
	free(json);
	assert_int_equal(gq_field_parse(kept.data, kept.len, &root, NULL), 0);
	return gq_posture_decode_tree(root, ret_posture, err);
}

static struct gq_posture *posture_of(const char *single_quoted)
{
	struct gq_posture *posture = NULL;
	struct gq_err err = {0};

	if (decode(single_quoted, gq_posture_keep, &posture, &err))
		fail_msg("%s", err.msg);
	return posture;
}

static void print_labels(struct gq_buf *out, const char *what, const struct gq_label *labels,
			 size_t n)
{
	for (size_t i = 0; i < n; i++)
		gq_buf_printf(out, "%s %s=%s; ", what, labels[i].key, labels[i].value);
}

static void print_container(struct gq_buf *out, const struct gq_posture_container *c)
{
	gq_buf_printf(out, "%s/%s", gq_container_list(c->kind), c->name);
	gq_buf_printf(out, "%s%s%s%s", c->sidecar ? " sidecar" : "",
		      c->privileged ? " privileged" : "", c->host_process ? " hostProcess" : "",
		      c->unmasked_proc ? " unmasked" : "");
	gq_buf_printf(out, "%s%s%s%s%s", c->all_powers ? " all" : "", c->sys_admin ? " admin" : "",
		      c->sys_ptrace ? " ptrace" : "", c->probed ? " probed" : "",
		      c->has_plugin_gpu ? " plugin-gpu"
		      : c->has_gpu      ? " gpu"
					: "");
	assert_true(c->has_gpu || !c->has_plugin_gpu);
	for (size_t i = 0; i < c->n_envs; i++) {
		gq_buf_printf(out, " %s=", gq_gpu_env_name(c->envs[i].env));
		assert_int_equal(*c->envs[i].from != '\0', c->envs[i].value == NULL);
		if (c->envs[i].value)
			gq_buf_printf(out, "'%s'", c->envs[i].value);
		else
			gq_buf_puts(out, c->envs[i].from);
	}
	for (size_t i = 0; i < c->n_env_froms; i++)
		gq_buf_printf(out, " %s*=%s", c->env_froms[i].prefix, c->env_froms[i].source);
	for (size_t i = 0; i < c->n_mounts; i++)
		gq_buf_printf(out, " mount:%s%s", c->mounts[i].volume,
			      c->mounts[i].read_only ? ":ro" : "");
	for (size_t i = 0; i < c->n_resources; i++)
		gq_buf_printf(out, " %s", c->resources[i]);
	gq_buf_puts(out, "; ");
}

/* All of a posture but what is as it is by default. */
static void print_posture(struct gq_buf *out, const struct gq_posture *p)
{
	gq_buf_printf(out, "%s%s%s%s", p->host_pid ? "pid; " : "", p->host_ipc ? "ipc; " : "",
		      p->host_network ? "network; " : "", p->host_users ? "" : "userns; ");
	gq_buf_printf(out, "%s%s%s", p->windows ? "windows; " : "", p->restarts ? "" : "ends; ",
		      p->has_ports ? "ports; " : "");
	if (*p->runtime_class)
		gq_buf_printf(out, "class %s; ", p->runtime_class);
	if (*p->scheduler)
		gq_buf_printf(out, "scheduler %s; ", p->scheduler);
	if (strcmp(p->service_account, "default") != 0)
		gq_buf_printf(out, "account %s; ", p->service_account);
	print_labels(out, "label", p->labels, p->n_labels);
	print_labels(out, "annotation", p->annotations, p->n_annotations);
	for (size_t i = 0; i < p->n_containers; i++)
		print_container(out, &p->containers[i]);
	for (size_t i = 0; i < p->n_volumes; i++)
		gq_buf_printf(out, "volume %s|%s|%s|%s%s; ", p->volumes[i].name,
			      p->volumes[i].host_path, p->volumes[i].claim,
			      p->volumes[i].volume_name,
			      p->volumes[i].ephemeral ? "|ephemeral" : "");
	while (out->len && strchr("; ", out->data[out->len - 1]))
		out->data[--out->len] = '\0';
}

#define SPEC(spec) "{'metadata':{'name':'p'},'spec':{" spec "}}"
#define ONE(fields) SPEC("'containers':[{'name':'c'," fields "}]")
#define SECURITY(fields) ONE("'securityContext':{" fields "}")
#define ADDS(capabilities) SECURITY("'capabilities':{'add':[" capabilities "]}")
#define ENV(vars) ONE("'env':[" vars "]")
#define LIMIT(entries) ONE("'resources':{'limits':{" entries "}}")
#define META(fields) "{'metadata':{'name':'p'," fields "},'spec':{}}"

static const struct {
	const char *pod;
	const char *posture;
} cases[] = {
    {"{}", ""},
    {"{'metadata':null,'spec':null}", ""},
    {SPEC(""), ""},
    /* the pod */
    {SPEC("'hostPID':true,'hostIPC':true,'hostNetwork':true"), "pid; ipc; network"},
    {SPEC("'hostPID':false,'hostIPC':null,'hostUsers':true"), ""},
    {SPEC("'hostUsers':false"), "userns"},
    {SPEC("'hostUsers':null"), ""},
    {SPEC("'os':{'name':'windows'}"), "windows"},
    {SPEC("'os':{'name':'linux'}"), ""},
    {SPEC("'restartPolicy':'Always'"), ""},
    {SPEC("'restartPolicy':'OnFailure'"), "ends"},
    {SPEC("'restartPolicy':'Never'"), "ends"},
    {SPEC("'runtimeClassName':'nvidia','schedulerName':'hami-scheduler'"),
     "class nvidia; scheduler hami-scheduler"},
    {SPEC("'serviceAccountName':'a'"), "account a"},
    {SPEC("'serviceAccount':'b'"), "account b"},
    {SPEC("'serviceAccountName':'a','serviceAccount':'b'"), "account a"},
    {SPEC("'serviceAccountName':'','serviceAccount':'b'"), "account b"},
    {SPEC("'serviceAccountName':''"), ""},
    /* labels and annotations: these keys and no others */
    {META("'labels':{'x':'y','kai.scheduler/queue':'q','hami.io/webhook':'ignore',"
	  "'kai.scheduler/queue2':'r'}"),
     "label hami.io/webhook=ignore"},
    {META("'annotations':{'nvidia.com/vgpu-mode':'mps','nvidia.com/use-gputype':'A100','nvidia.com/"
	  "nouse-gputype':'H100','nvidia.com/use-gpuuuid':'GPU-1','nvidia.com/"
	  "nouse-gpuuuid':'','hami.io/vgpu-node':'n','hami.io/webhook':'ignore'}"),
     "annotation hami.io/vgpu-node=n; annotation nvidia.com/nouse-gputype=H100; "
     "annotation nvidia.com/nouse-gpuuuid=; annotation nvidia.com/use-gputype=A100; "
     "annotation nvidia.com/use-gpuuuid=GPU-1; annotation nvidia.com/vgpu-mode=mps"},
    {META("'annotations':{'hami.io/vgpu-time':'1','hami.io/vgpu-devices-to-allocate':'a','hami.io/"
	  "vgpu-devices-allocated':'b','hami.io/bind-time':'2','hami.io/bind-phase':'success',"
	  "'hami.io/amd-devices-to-allocate':'','hami.io/amd-devices-allocated':'c'}"),
     "annotation hami.io/amd-devices-allocated=c; annotation hami.io/amd-devices-to-allocate=; "
     "annotation hami.io/bind-phase=success; annotation hami.io/bind-time=2; "
     "annotation hami.io/vgpu-devices-allocated=b; "
     "annotation hami.io/vgpu-devices-to-allocate=a; annotation hami.io/vgpu-time=1"},
    {META("'labels':{'hami.io/webhook':null},'annotations':null"), ""},
    /* containers of each kind, in their order */
    {SPEC("'ephemeralContainers':[{'name':'e'}],'containers':[{'name':'b','restartPolicy':"
	  "'Always'},{'name':'a'}],'initContainers':[{'name':'i'},{'name':'s','restartPolicy':"
	  "'Always'}]"),
     "initContainers/i; initContainers/s sidecar; containers/b; containers/a; "
     "ephemeralContainers/e"},
    {SPEC("'containers':[{}]"), "containers/"},
    {ONE("'ports':[{'containerPort':80}]"), "ports; containers/c"},
    {ONE("'ports':[]"), "containers/c"},
    {SPEC("'initContainers':[{'ports':[{}]}]"), "ports; initContainers/"},
    {ONE("'readinessProbe':{'tcpSocket':{'port':1}}"), "containers/c probed"},
    {ONE("'startupProbe':{'exec':{'command':['x']}}"), "containers/c probed"},
    {ONE("'livenessProbe':{'exec':{}},'readinessProbe':null"), "containers/c"},
    /* what a container may do */
    {SECURITY("'privileged':true"), "containers/c privileged"},
    {SECURITY("'privileged':false,'procMount':'Default'"), "containers/c"},
    {SECURITY("'procMount':'Unmasked'"), "containers/c unmasked"},
    {SECURITY("'windowsOptions':{'hostProcess':true}"), "containers/c hostProcess"},
    {SPEC("'securityContext':{'windowsOptions':{'hostProcess':true}},'containers':[{'name':'a'},"
	  "{'name':'b','securityContext':{'windowsOptions':{'hostProcess':false}}},"
	  "{'name':'d','securityContext':{'windowsOptions':{'hostProcess':null}}},"
	  "{'name':'e','securityContext':{'windowsOptions':{}}}]"),
     "containers/a hostProcess; containers/b; containers/d hostProcess; containers/e hostProcess"},
    {SPEC("'securityContext':{'windowsOptions':{'hostProcess':false}},'containers':[{'name':'a',"
	  "'securityContext':{'windowsOptions':{'hostProcess':true}}}]"),
     "containers/a hostProcess"},
    {ADDS("'SYS_ADMIN'"), "containers/c admin"},
    {ADDS("'CAP_SYS_ADMIN'"), "containers/c admin"},
    {ADDS("'cap_sys_Ptrace'"), "containers/c ptrace"},
    {ADDS("'NET_ADMIN','SYS_PTRACE'"), "containers/c ptrace"},
    {ADDS("'ALL'"), "containers/c all admin ptrace"},
    {ADDS("'all'"), "containers/c all admin ptrace"},
    {ADDS("'CAP_ALL'"), "containers/c all admin ptrace"},
    {ADDS("'SYS_ADMINS','CAP_','XCAP_SYS_ADMIN',''"), "containers/c"},
    {SECURITY("'capabilities':{'drop':['ALL']}"), "containers/c"},
    /* the environment */
    {ENV("{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'},{'name':'PATH','value':'/bin'},"
	 "{'name':'CUDA_DISABLE_CONTROL','value':'true'}"),
     "containers/c NVIDIA_VISIBLE_DEVICES='all' CUDA_DISABLE_CONTROL='true'"},
    {ENV("{'name':'NVIDIA_DRIVER_CAPABILITIES','value':'$(X)'},"
	 "{'name':'GPU_CORE_UTILIZATION_POLICY','value':'disable'}"),
     "containers/c NVIDIA_DRIVER_CAPABILITIES='$(X)' GPU_CORE_UTILIZATION_POLICY='disable'"},
    {ENV("{'name':'NVIDIA_VISIBLE_DEVICES'}"), "containers/c NVIDIA_VISIBLE_DEVICES=''"},
    {ENV("{'name':'NVIDIA_VISIBLE_DEVICES','value':''},{'name':'NVIDIA_VISIBLE_DEVICES',"
	 "'value':'0'}"),
     "containers/c NVIDIA_VISIBLE_DEVICES='' NVIDIA_VISIBLE_DEVICES='0'"},
    {ENV("{'name':'nvidia_visible_devices','value':'all'},{'name':'NVIDIA_VISIBLE_DEVICES2'},{}"),
     "containers/c"},
    {ENV("{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':{'configMapKeyRef':{'name':'m','key':'k'}}},"
	 "{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':{'secretKeyRef':{'name':'m','key':'k'}}},"
	 "{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':{'fieldRef':{'fieldPath':'x'}}},"
	 "{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':{'resourceFieldRef':{'resource':'x'}}},"
	 "{'name':'NVIDIA_VISIBLE_DEVICES','value':'','valueFrom':{'fileKeyRef':{}}},"
	 "{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':{'oracleRef':{}}}"),
     "containers/c NVIDIA_VISIBLE_DEVICES=configMapKeyRef NVIDIA_VISIBLE_DEVICES=secretKeyRef "
     "NVIDIA_VISIBLE_DEVICES=fieldRef NVIDIA_VISIBLE_DEVICES=resourceFieldRef "
     "NVIDIA_VISIBLE_DEVICES=fileKeyRef NVIDIA_VISIBLE_DEVICES=valueFrom"},
    {ENV("{'name':'NVIDIA_VISIBLE_DEVICES','value':'0','valueFrom':null}"),
     "containers/c NVIDIA_VISIBLE_DEVICES='0'"},
    {ONE("'envFrom':[{'configMapRef':{'name':'a'}},{'prefix':'','secretRef':{'name':'b'}},"
	 "{'prefix':'NVIDIA_','configMapRef':{'name':'d'}},{'prefix':'C','secretRef':{'name':'e'}},"
	 "{'prefix':'GPU_X','secretRef':{'name':'f'}},{'prefix':'nvidia_'},"
	 "{'prefix':'CUDA_DISABLE_CONTROL','secretRef':{'name':'g'}},{'prefix':'G'}]"),
     "containers/c NVIDIA_*=d C*=e G*="},
    /* mounts and volumes */
    {ONE("'volumeMounts':[{'name':'a','readOnly':true,'mountPath':'/a'},{'name':'b'},"
	 "{'name':'b','readOnly':false}],'volumeDevices':[{'name':'d','readOnly':true,"
	 "'devicePath':'/dev/x'}]"),
     "containers/c mount:a:ro mount:b mount:b mount:d"},
    {SPEC("'volumes':[{'name':'h','hostPath':{'path':'/var/run/../run','type':'Directory'}},"
	  "{'name':'c','persistentVolumeClaim':{'claimName':'data','readOnly':true}},"
	  "{'name':'e','emptyDir':{}},{'name':'g','ephemeral':{'volumeClaimTemplate':{'metadata':"
	  "{},'spec':{'volumeName':'pv-1','resources':{}}}}},{'name':'f','ephemeral':{}}]"),
     "volume h|/var/run/../run||; volume c||data|; volume e|||; volume g||p-g|pv-1|ephemeral; "
     "volume f||p-f||ephemeral"},
    {"{'metadata':{'labels':{}},'spec':{'volumes':[{'name':'g','ephemeral':{'volumeClaimTemplate':"
     "{'spec':{'volumeName':'pv-1'}}}}]}}",
     "volume g|||pv-1|ephemeral"},
    {SPEC("'volumes':[{'name':'h','hostPath':{}}]"), "volume h|||"},
    /* resources */
    {LIMIT("'nvidia.com/gpu':1"), "containers/c plugin-gpu nvidia.com/gpu"},
    {LIMIT("'nvidia.com/gpu':'0'"), "containers/c"},
    {LIMIT("'nvidia.com/gpu':'0.0'"), "containers/c"},
    {LIMIT("'nvidia.com/gpu':'100m'"), "containers/c plugin-gpu nvidia.com/gpu"},
    {LIMIT("'nvidia.com/gpu':'-1'"), "containers/c plugin-gpu nvidia.com/gpu"},
    {LIMIT("'nvidia.com/gpu':'many'"), "containers/c plugin-gpu nvidia.com/gpu"},
    {LIMIT("'nvidia.com/gpu':null"), "containers/c plugin-gpu nvidia.com/gpu"},
    {LIMIT("'nvidia.com/gpu':1e30"), "containers/c plugin-gpu nvidia.com/gpu"},
    {LIMIT("'cpu':'1','memory':'1Gi','hugepages-2Mi':'4Mi','ephemeral-storage':'1'"),
     "containers/c"},
    {LIMIT("'example.com/nic':'1'"), "containers/c example.com/nic"},
    {LIMIT("'nvidia.com/gpumem':'1000'"), "containers/c gpu nvidia.com/gpumem"},
    {LIMIT("'nvidia.com/mig-1g.5gb':'1'"), "containers/c plugin-gpu nvidia.com/mig-1g.5gb"},
    {LIMIT("'nvidia.com/rdma_x':'1'"), "containers/c nvidia.com/rdma_x"},
    {LIMIT("'amd.com/gpu':'1'"), "containers/c gpu amd.com/gpu"},
    {LIMIT("'huawei.com/Ascend910':'1'"), "containers/c gpu huawei.com/Ascend910"},
    {LIMIT("'example.com/my-gpu':'1'"), "containers/c gpu example.com/my-gpu"},
    {ONE("'resources':{'requests':{'b.com/x':'1','nvidia.com/gpu':'1'},'limits':{'nvidia.com/"
	 "gpu':'1','a.com/x':'1'}}"),
     "containers/c plugin-gpu b.com/x nvidia.com/gpu a.com/x"},
    {ONE("'resources':{'requests':{'nvidia.com/gpu':'0'},'limits':{'nvidia.com/gpu':'1'}}"),
     "containers/c plugin-gpu nvidia.com/gpu"},
    {ONE("'resources':{'requests':{'nvidia.com/gpu':'1'},'limits':{'nvidia.com/gpu':'0'}}"),
     "containers/c plugin-gpu nvidia.com/gpu"},
    {ONE("'resources':{'claims':[{'name':'x'}]}"), "containers/c gpu"},
    {ONE("'resources':{'claims':[]}"), "containers/c"},
};

static void postures(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		struct gq_posture *posture GQ_CLEANUP(gq_cleanup_posture) =
		    posture_of(cases[i].pod);
		print_message("%s\n", cases[i].pod);
		gq_buf_puts(&text, "");
		print_posture(&text, posture);
		assert_string_equal(text.data, cases[i].posture);
	}
}

/* A review is pruned for the decoder of pods too, and a template sits deeper. */
static void other_keep_trees_change_nothing(void **state)
{
	struct gq_json_keep *merged GQ_CLEANUP(gq_cleanup_json_keep) = NULL;

	(void)state;
	assert_int_equal(gq_json_keep_merge(gq_pod_keep, gq_posture_keep, &merged), 0);
	for (size_t i = 0; i < 2 * LEN(cases); i++) {
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		struct gq_posture *posture GQ_CLEANUP(gq_cleanup_posture) = NULL;
		print_message("%s\n", cases[i / 2].pod);
		assert_int_equal(decode(cases[i / 2].pod, i % 2 ? NULL : merged, &posture, NULL),
				 0);
		gq_buf_puts(&text, "");
		print_posture(&text, posture);
		assert_string_equal(text.data, cases[i / 2].posture);
	}
	/* nor does ours hide anything from that decoder */
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
	static const char pod[] =
	    "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"gpu-fraction\":\"0.5\"}}}";
	assert_int_equal(prune(pod, strlen(pod), merged, &kept), 0);
	assert_string_equal(kept.data, pod);
}

static void wrong_types_are_named(void **state)
{
	static const struct {
		const char *pod;
		const char *message;
	} wrong[] = {
	    {"{'metadata':[]}", "metadata: must be an object"},
	    {"{'metadata':{'labels':[]}}", "metadata.labels: must be an object"},
	    {"{'metadata':{'labels':{'hami.io/webhook':1}}}",
	     "metadata.labels.hami.io/webhook: must be a string"},
	    {"{'metadata':{'annotations':{'nvidia.com/vgpu-mode':true}}}",
	     "metadata.annotations.nvidia.com/vgpu-mode: must be a string"},
	    {"{'metadata':{'name':1}}", "metadata.name: must be a string"},
	    {"{'spec':7}", "spec: must be an object"},
	    {SPEC("'hostPID':'true'"), "spec.hostPID: must be true or false"},
	    {SPEC("'hostUsers':0"), "spec.hostUsers: must be true or false"},
	    {SPEC("'os':'windows'"), "spec.os: must be an object"},
	    {SPEC("'restartPolicy':1"), "spec.restartPolicy: must be a string"},
	    {SPEC("'schedulerName':{}"), "spec.schedulerName: must be a string"},
	    {SPEC("'serviceAccount':1"), "spec.serviceAccount: must be a string"},
	    {SPEC("'securityContext':{'windowsOptions':{'hostProcess':1}}"),
	     "spec.securityContext.windowsOptions.hostProcess: must be true or false"},
	    {SPEC("'containers':{}"), "spec.containers: must be a list"},
	    {SPEC("'initContainers':[1]"), "spec.initContainers[0]: must be an object"},
	    {SPEC("'containers':[{},null]"), "spec.containers[1]: must be an object"},
	    {SECURITY("'privileged':'yes'"),
	     "spec.containers[0].securityContext.privileged: must be true or false"},
	    {SECURITY("'procMount':1"),
	     "spec.containers[0].securityContext.procMount: must be a string"},
	    {ADDS("'ALL',1"),
	     "spec.containers[0].securityContext.capabilities.add[1]: must be a string"},
	    {SECURITY("'capabilities':{'add':'ALL'}"),
	     "spec.containers[0].securityContext.capabilities.add: must be a list"},
	    {ENV("{},{'name':'NVIDIA_VISIBLE_DEVICES','value':1}"),
	     "spec.containers[0].env[0].value: must be a string"},
	    {ENV("{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':'x'}"),
	     "spec.containers[0].env[0].valueFrom: must be an object"},
	    {ONE("'envFrom':[{'prefix':1}]"),
	     "spec.containers[0].envFrom[0].prefix: must be a string"},
	    {ONE("'volumeMounts':[{'readOnly':'no'}]"),
	     "spec.containers[0].volumeMounts[0].readOnly: must be true or false"},
	    {ONE("'volumeDevices':[7]"), "spec.containers[0].volumeDevices[0]: must be an object"},
	    {LIMIT("'nvidia.com/gpu':true"),
	     "spec.containers[0].resources.limits.nvidia.com/gpu: must be a quantity"},
	    {LIMIT("'example.com/nic':[]"),
	     "spec.containers[0].resources.limits.example.com/nic: must be a quantity"},
	    {ONE("'resources':{'claims':{}}"),
	     "spec.containers[0].resources.claims: must be a list"},
	    {ONE("'ports':{}"), "spec.containers[0].ports: must be a list"},
	    {ONE("'startupProbe':true"), "spec.containers[0].startupProbe: must be an object"},
	    {SPEC("'volumes':[{'hostPath':'/'}]"), "spec.volumes[0].hostPath: must be an object"},
	    {SPEC("'volumes':[{'hostPath':{'path':1}}]"),
	     "spec.volumes[0].hostPath.path: must be a string"},
	    {SPEC("'volumes':[{'hostPath':{'path':'/dev\\u0000x'}}]"),
	     "spec.volumes[0].hostPath.path: has a NUL character in it"},
	    {SPEC("'volumes':[{'ephemeral':{'volumeClaimTemplate':{'spec':{'volumeName':1}}}}]"),
	     "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName: must be a string"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(wrong); i++) {
		struct gq_posture *posture = NULL;
		struct gq_err err = {0};
		print_message("%s\n", wrong[i].pod);
		assert_int_equal(decode(wrong[i].pod, gq_posture_keep, &posture, &err),
				 GQ_EINVALID);
		assert_null(posture);
		assert_string_equal(err.msg, wrong[i].message);
	}
	gq_posture_unref(NULL);
}

/* n items between head and tail. */
static char *many(const char *head, const char *item, size_t n, const char *tail)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 23);

	gq_buf_puts(&out, head);
	for (size_t i = 0; i < n; i++)
		gq_buf_printf(&out, "%s%s", i ? "," : "", item);
	assert_int_equal(gq_buf_puts(&out, tail), 0);
	return gq_buf_steal(&out);
}

static void lists_are_capped(void **state)
{
	static const struct {
		const char *head, *item, *tail, *path;
		size_t most;
	} lists[] = {
	    {"{'spec':{'containers':[", "{}", "]}}", "spec.containers", GQ_FIELD_ITEMS_MAX},
	    {"{'spec':{'volumes':[", "{}", "]}}", "spec.volumes", GQ_FIELD_ITEMS_MAX},
	    {"{'spec':{'containers':[{'env':[", "{'name':'CUDA_DISABLE_CONTROL'}", "]}]}}",
	     "spec.containers[0].env", GQ_FIELD_ENV_MAX},
	    {"{'spec':{'containers':[{'envFrom':[", "{}", "]}]}}", "spec.containers[0].envFrom",
	     GQ_FIELD_ENV_MAX},
	    {"{'spec':{'containers':[{'volumeMounts':[", "{}", "]}]}}",
	     "spec.containers[0].volumeMounts", GQ_FIELD_ENV_MAX},
	    {"{'spec':{'containers':[{'volumeDevices':[", "{}", "]}]}}",
	     "spec.containers[0].volumeDevices", GQ_FIELD_ENV_MAX},
	    {"{'spec':{'containers':[{'ports':[", "{}", "]}]}}", "spec.containers[0].ports",
	     GQ_FIELD_ITEMS_MAX},
	    {"{'spec':{'containers':[{'securityContext':{'capabilities':{'add':[", "'X'", "]}}}]}}",
	     "spec.containers[0].securityContext.capabilities.add", GQ_FIELD_ITEMS_MAX},
	};

	(void)state;
	for (size_t i = 0; i < LEN(lists); i++) {
		char message[128];
		char *fits = many(lists[i].head, lists[i].item, lists[i].most, lists[i].tail);
		char *over = many(lists[i].head, lists[i].item, lists[i].most + 1, lists[i].tail);
		struct gq_posture *posture GQ_CLEANUP(gq_cleanup_posture) = posture_of(fits);
		struct gq_posture *none = NULL;
		struct gq_err err = {0};
		assert_non_null(posture);
		(void)snprintf(message, sizeof message, "%s: has more than %zu items",
			       lists[i].path, lists[i].most);
		assert_int_equal(decode(over, gq_posture_keep, &none, &err), GQ_ETOOBIG);
		assert_null(none);
		assert_string_equal(err.msg, message);
		free(fits);
		free(over);
	}
}

/* A pod's name stands in the name of each of its claims: a long one must not be copied a thousand
 * times. */
static void long_strings_are_kept_once(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	static const size_t lens[] = {1, 251, 252, 65536};

	(void)state;
	for (size_t k = 0; k < LEN(lens); k++) {
		size_t len = lens[k];
		gq_buf_reset(&text);
		gq_buf_puts(&text, "{'metadata':{'name':'");
		for (size_t i = 0; i < len; i++)
			gq_buf_putc(&text, 'p');
		gq_buf_puts(&text, "'},'spec':{'volumes':[");
		char *pod = many(text.data, "{'name':'v','ephemeral':{}}", 1000, "]}}");
		struct gq_posture *posture GQ_CLEANUP(gq_cleanup_posture) = posture_of(pod);
		size_t want = len + 2 <= 253 ? len + 2 : 0;
		assert_int_equal(strlen(posture->volumes[999].claim), want);
		assert_true(gq_counted_size(posture) < 400000);
		free(pod);
	}
	gq_buf_reset(&text);
	gq_buf_puts(&text,
		    "{'spec':{'containers':[{'env':[{'name':'NVIDIA_VISIBLE_DEVICES','value':"
		    "'");
	for (size_t i = 0; i < 65536; i++)
		gq_buf_putc(&text, '0');
	gq_buf_puts(&text, "'}]}]}}");
	struct gq_posture *posture GQ_CLEANUP(gq_cleanup_posture) = posture_of(text.data);
	assert_int_equal(strlen(posture->containers[0].envs[0].value), 65536);
}

static void lists_of_keys_are_sorted(void **state)
{
#define TEXT(key) key,
	static const char *const labels[] = {GQ_POSTURE_LABELS(TEXT)};
	static const char *const annotations[] = {GQ_POSTURE_ANNOTATIONS(TEXT)};

	(void)state;
	for (size_t i = 1; i < LEN(labels); i++)
		assert_true(strcmp(labels[i - 1], labels[i]) < 0);
	for (size_t i = 1; i < LEN(annotations); i++)
		assert_true(strcmp(annotations[i - 1], annotations[i]) < 0);
}

static void references_are_counted(void **state)
{
	struct gq_posture *posture = posture_of(SPEC("'serviceAccountName':'robot'"));
	struct gq_posture *other = gq_posture_ref(posture);

	(void)state;
	assert_ptr_equal(other, posture);
	gq_posture_unref(posture);
	assert_string_equal(other->service_account, "robot");
	gq_posture_unref(other);
}

static void too_little_memory_is_an_answer(void **state)
{
	char *json = json_of(
	    SPEC("'volumes':[{'name':'v','ephemeral':{}}],'containers':[{'name':'c','env':[{'name':"
		 "'NVIDIA_VISIBLE_DEVICES','value':'all'}],'resources':{'limits':{'nvidia.com/"
		 "gpu':1.5}}}]"));
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	bool failed = true;

	(void)state;
	for (long nth = 0; failed; nth++) {
		struct gq_posture *posture GQ_CLEANUP(gq_cleanup_posture) = NULL;
		struct gq_err err = {0};
		/* numbers are printed into the tree once */
		json_object_put(root);
		root = NULL;
		assert_int_equal(gq_field_parse(json, strlen(json), &root, NULL), 0);
		fail_alloc(nth);
		int code = gq_posture_decode_tree(root, &posture, &err);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		assert_int_equal(err.code, code);
		assert_int_equal(posture == NULL, failed);
		assert_true(failed || nth > 1);
	}
	free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(postures),
	    cmocka_unit_test(other_keep_trees_change_nothing),
	    cmocka_unit_test(wrong_types_are_named),
	    cmocka_unit_test(lists_are_capped),
	    cmocka_unit_test(long_strings_are_kept_once),
	    cmocka_unit_test(lists_of_keys_are_sorted),
	    cmocka_unit_test(references_are_counted),
	    cmocka_unit_test(too_little_memory_is_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
