#include "quota/message.h"

/* Half-width for code, numbers and the = of labels, full-width punctuation in prose, a space
 * between Chinese and Latin. A GPU is counted in 张, and a class is a 型号. Nouns have no plural:
 * both texts of a pair are the same. */

const char *const gq_messages_zh[GQ_MSG_COUNT] = {
    [GQ_MSG_OVER_LIMIT] =
	"租户 {tenant} 的配额为 {limit}，已占用 {used} 张（{states}）；此 Pod 申请 {asks} "
	"张，超出 {excess} 张。",
    [GQ_MSG_OVER_LIMIT_PARENT] =
	"租户 {tenant} 的配额为 {limit}，连同其所有下级租户（包括 {child}）已占用 {used} "
	"张（{states}）；此 Pod 申请 {asks} 张，超出 {excess} 张。",
    [GQ_MSG_OVER_MEMORY] =
	"租户 {tenant} 的配额为 {limit}，已占用 {used}（{states}）；此 Pod 申请 {asks}，超出 "
	"{excess}。",
    [GQ_MSG_OVER_MEMORY_PARENT] =
	"租户 {tenant} 的配额为 {limit}，连同其所有下级租户（包括 {child}）已占用 "
	"{used}（{states}）；此 Pod 申请 {asks}，超出 {excess}。",
    [GQ_MSG_HOLDERS] = "命名空间 {namespace} 中占用配额的 Pod：{list}。",
    [GQ_MSG_HOLDERS_MORE] =
	"命名空间 {namespace} 中占用配额的 Pod：{list}；其他命名空间还占用 {more}。",
    [GQ_MSG_HOLDERS_CUT] =
	"命名空间 {namespace} 中占用配额的 Pod：{list}；此处其余的 Pod 和其他命名空间还占用 "
	"{more}。",
    [GQ_MSG_HOLDERS_ELSEWHERE] =
	"命名空间 {namespace} 中没有占用配额的 Pod；其他命名空间占用 {more}。",
    [GQ_MSG_FIT_FEWER] = "若只申请 {gpus}，则可通过。",
    [GQ_MSG_FIT_CLASS] = "若改用 {class}（剩余配额：{free}），则可通过：请将 nodeSelector 设为 "
			 "{label}={value}。",
    [GQ_MSG_FIT_FEWER_OR_CLASS] =
	"若只申请 {gpus}，或改用 {class}（剩余配额：{free}），则可通过；改用时请将 "
	"nodeSelector 设为 {label}={value}。",
    [GQ_MSG_FIT_NARROW] =
	"此 Pod 可能被调度到 {classes}，因此计入其中每一种的配额；若只选其中一种，则可通过："
	"请将 nodeSelector 设为 {label}={value}。",
    [GQ_MSG_FIT_NONE] =
	"目前减少 GPU 数量或换用其他型号都无法通过：请等待 GPU 释放，删除占用 GPU 的 Pod，"
	"或联系集群管理员增加配额。",
    [GQ_MSG_FIT_NEVER] = "减少 GPU 数量或换用其他型号也无法通过：请联系集群管理员增加配额。",
    [GQ_MSG_SURGE] =
	"{owner} 会先启动新 Pod 再结束旧 Pod，所需的 GPU 多于它已占用的：请在其 Deployment "
	"的 strategy 中将 maxSurge 设为 0，将 maxUnavailable 设为 1。",
    [GQ_MSG_WORKLOAD_NEVER] =
	"租户 {tenant} 的配额为 {limit}，而此模板的每个 Pod 申请 {asks} 张，超出 {excess} 张，即"
	"使其他 Pod 都不占用也无法通过。",
    [GQ_MSG_WORKLOAD_NEVER_PARENT] =
	"租户 {tenant} 的配额为 {limit}（由其所有下级租户共用，包括 {child}），而此模板的每个 Pod "
	"申请 {asks} 张，超出 {excess} 张，即使其他 Pod 都不占用也无法通过。",
    [GQ_MSG_WORKLOAD_NEVER_MEMORY] =
	"租户 {tenant} 的配额为 {limit}，而此模板的每个 Pod 申请 {asks}，超出 {excess}，即使其他 "
	"Pod 都不占用也无法通过。",
    [GQ_MSG_WORKLOAD_NEVER_MEMORY_PARENT] =
	"租户 {tenant} 的配额为 {limit}（由其所有下级租户共用，包括 {child}），而此模板的每个 Pod "
	"申请 {asks}，超出 {excess}，即使其他 Pod 都不占用也无法通过。",
    [GQ_MSG_WORKLOAD_SHORT] =
	"租户 {tenant} 的配额为 {limit}，剩余 {free} 张；此 {kind} 需要 {needs} 张（{pods}），还缺 "
	"{lacks} 张。",
    [GQ_MSG_WORKLOAD_SHORT_PARENT] =
	"租户 {tenant} 的配额为 {limit}（由其所有下级租户共用，包括 {child}），剩余 {free} 张；此 "
	"{kind} 需要 {needs} 张（{pods}），还缺 {lacks} 张。",
    [GQ_MSG_WORKLOAD_SHORT_MEMORY] =
	"租户 {tenant} 的配额为 {limit}，剩余 {free}；此 {kind} 需要 {needs}（{pods}），还缺 "
	"{lacks}。",
    [GQ_MSG_WORKLOAD_SHORT_MEMORY_PARENT] =
	"租户 {tenant} 的配额为 {limit}（由其所有下级租户共用，包括 {child}），剩余 {free}；此 "
	"{kind} 需要 {needs}（{pods}），还缺 {lacks}。",
    [GQ_MSG_WORKLOAD_FIT_PODS] =
	"目前最多能容纳其 {count} 个 Pod，其余的在 GPU 释放前会被拒绝：请将 {field} 设为 {count}。",
    [GQ_MSG_WORKLOAD_FIT_SURGE] =
	"其 Pod 全部可以容纳，但滚动更新时额外启动的 Pod 会被拒绝：请将 maxSurge 设为 0，将 "
	"maxUnavailable 设为 1。",
    [GQ_MSG_WORKLOAD_FIT_NODES] =
	"其部分节点上的 Pod 在 GPU 释放前会被拒绝：请在其模板中用 nodeSelector 选择更少的节点。",
    [GQ_MSG_WORKLOAD_FIT_NONE] = "目前无法容纳其任何新 Pod：在 GPU 释放前会被拒绝，请稍后再试。",
    [GQ_MSG_WORKLOAD_GROWS] = "它的新 Pod 会被拒绝：",
    [GQ_MSG_UNLISTED] =
	"租户 {tenant} 没有 {class} 型号 GPU 的配额，只有 {listed} 的配额：请用 nodeSelector "
	"选择其中一种，或联系集群管理员申请 {class} 的配额。",
    [GQ_MSG_UNLISTED_NONE] =
	"租户 {tenant} 没有 {class} 型号 GPU 的配额，也没有其他任何型号的配额："
	"请联系集群管理员申请 {class} 的配额。",
    [GQ_MSG_CLASS_AMBIGUOUS] =
	"租户 {tenant} 的此 Pod 可能被调度到多种型号的 GPU（{classes}），而策略要求只选一种："
	"请选定一种，例如将 nodeSelector 设为 {label}={value}。",
    [GQ_MSG_UNASSIGNED] =
	"命名空间 {namespace} 不属于任何租户，而策略拒绝此类命名空间中的 GPU Pod："
	"请改用所属租户的命名空间，或联系集群管理员将 {namespace} 划给某个租户。",
    [GQ_MSG_NAMESPACE_AMBIGUOUS] =
	"命名空间 {namespace} 的标签同时匹配两个租户 {first} 和 {second}，因此其中的 GPU Pod "
	"会被拒绝：请联系集群管理员修改其标签，或在两者之一中按名称列出 {namespace}。",
    [GQ_MSG_POD_LIMIT] =
	"租户 {tenant} 的单个 Pod 最多可申请 {limit}；此 Pod 申请 {asks} 张：请减少申请数量，"
	"或将任务拆分到多个 Pod。",
    [GQ_MSG_POD_LIMIT_RULE] =
	"本集群中单个 Pod 最多可申请 {limit}；此 Pod 申请 {asks} 张：请减少申请数量，"
	"将任务拆分到多个 Pod，或联系集群管理员豁免该命名空间。",
    [GQ_MSG_POD_LIMIT_MAY] =
	"租户 {tenant} 的单个 Pod 最多可申请 {limit}；此 Pod 可能被调度到该型号，申请 {asks} "
	"张：请用 nodeSelector 选择其他型号、减少申请数量，或将任务拆分到多个 Pod。",
    [GQ_MSG_POD_LIMIT_RULE_MAY] =
	"本集群中单个 Pod 最多可申请 {limit}；此 Pod 可能被调度到该型号，申请 {asks} 张：请用 "
	"nodeSelector 选择其他型号、减少申请数量，或将任务拆分到多个 Pod。",
    [GQ_MSG_VOLUME_HOST_PATH] = "卷 {volume}（hostPath {path}）",
    [GQ_MSG_VOLUME_CLAIM] = "卷 {volume}（申领 {claim}，PersistentVolume {name}，节点路径 {path}）",
    [GQ_MSG_VOLUME_EPHEMERAL] = "卷 {volume}（PersistentVolume {name}，节点路径 {path}）",
    [GQ_MSG_RULE_MORE] = "另有 {count} 处同类问题。",
    [GQ_MSG_RULE_PRIVILEGED] =
	"{container} 是特权容器，可以使用节点上的所有设备：请去掉 securityContext.privileged。",
    [GQ_MSG_RULE_HOST_PROCESS] =
	"{container} 是 Windows 节点的主机进程，权限与节点本身相同：请去掉 "
	"windowsOptions.hostProcess。",
    [GQ_MSG_RULE_HOST_PID] = "{container} 在 hostPID: true 的 Pod 中添加了 {capability} "
			     "能力，等同于特权容器：请去掉其中之一。",
    [GQ_MSG_RULE_PROC_MOUNT] = "{container} 设置了 procMount: "
			       "Unmasked，却没有使用用户命名空间，可以改动节点的内核设置：请去掉它"
			       "，或在 Pod 的 spec 中设置 hostUsers: false。",
    [GQ_MSG_RULE_SOCKET] =
	"{where}会让 Pod 接触到 "
	"{socket}，由此可以启动不计入任何配额的容器：请去掉这个卷，或请集群管理员豁免该命名空间。",
    [GQ_MSG_RULE_DEVICE] =
	"{where}会让 Pod 接触到节点的 "
	"{device}，从而使用未申请的设备：请去掉这个卷，或请集群管理员豁免该命名空间。GPU 在 "
	"resources.limits 中申请（nvidia.com/gpu: 1），共享内存请用 medium: Memory 的 emptyDir。",
    [GQ_MSG_RULE_CLAIMS] = "Pod 通过申领使用的卷太多，无法逐一检查（例如卷 "
			   "{volume}），不能确定它们指向哪里：请减少卷的数量。",
    [GQ_MSG_RULE_HOST_PATH] =
	"{where}不在此处允许 Pod 挂载的节点路径之内（{list}）：请从其中挂载，或改用 "
	"PersistentVolumeClaim。",
    [GQ_MSG_RULE_HOST_PATH_NONE] =
	"{where}：此处不允许 Pod 挂载节点路径；请改用 emptyDir 或 PersistentVolumeClaim。",
    [GQ_MSG_RULE_HOST_PATH_READ_ONLY] = "{where}：此处 {path} 只允许只读挂载；请在 {volume} 的每个 "
					"volumeMount 上设置 readOnly: true。",
    [GQ_MSG_RULE_ENV_DEVICES] =
	"{container} 将 {name} 设为 {value}，却没有申请 nvidia.com/gpu，会使用未计入配额的 "
	"GPU：请去掉这个环境变量，或在 resources.limits 中申请 GPU（nvidia.com/gpu: 1）。",
    [GQ_MSG_RULE_ENV_EPHEMERAL] = "{container} 设置了 {name}（{value}），而临时容器不能申请 "
				  "GPU，会使用未计入配额的 GPU：请去掉这个环境变量。",
    [GQ_MSG_RULE_ENV_REFERENCE] =
	"{container} 的 {name} 取自别处（{from}），却没有申请 nvidia.com/gpu，无法确定它会使用哪些 "
	"GPU：请去掉这个环境变量，或在 resources.limits 中申请 GPU（nvidia.com/gpu: 1）。",
    [GQ_MSG_RULE_ENV_CAPABILITIES] = "{container} 在 runtimeClassName {runtime} 下设置了 "
				     "{name}，却没有申请 nvidia.com/gpu：请去掉这个环境变量，或在 "
				     "resources.limits 中申请 GPU（nvidia.com/gpu: 1）。",
    [GQ_MSG_RULE_ENV_FROM] =
	"{container} 以前缀 {prefix} 从 {kind} {source} 引入环境变量，可能拼出 "
	"{name}：请换用其他前缀，或逐个写明变量。",
    [GQ_MSG_RULE_SCHEDULER] = "Pod 设置了负责分配 GPU 的 schedulerName: {scheduler}，却没有申请 "
			      "GPU：请去掉 schedulerName，或在 resources.limits 中申请 GPU。",
    [GQ_MSG_RULE_ANNOTATION] = "Pod 带有用于分配 GPU 的注解 {name}，却没有申请 "
			       "GPU：请去掉该注解，或在 resources.limits 中申请 GPU。",
    [GQ_MSG_RULE_NODE_NAME] =
	"Pod 通过 spec.nodeName 直接进入带 GPU 的节点 {node}，却没有申请该节点的 GPU：请去掉 "
	"spec.nodeName，或在 resources.limits 中申请 GPU（nvidia.com/gpu: 1）。",
    [GQ_MSG_RULE_NODE_NAME_SHARE] =
	"Pod 通过 spec.nodeName 绕过负责分配 GPU 份额的调度器直接进入 {node}，却申请了 GPU "
	"份额：请去掉 spec.nodeName，或申请整张 GPU（只写 nvidia.com/gpu，不写显存和算力）。",
    [GQ_MSG_RULE_BYPASS_LABEL] =
	"标签 {name}: {value} 会让集群的 GPU 共享系统跳过这个 Pod：请去掉该标签。",
    [GQ_MSG_RULE_BYPASS_ENV] =
	"{container} 设置了 {name}（{value}），会关闭对其 GPU 份额的限制：请去掉这个环境变量。",
    [GQ_MSG_RULE_BYPASS_SCHEDULER] =
	"Pod 申请了 GPU，但 schedulerName 是 {scheduler}；本集群的 GPU Pod 须使用 "
	"能保证份额的调度器（{list}）：请相应修改 schedulerName。",
    [GQ_MSG_RULE_GPU_MEMORY] = "{container} 申请了 {name}，却没有说明需要多少显存：请在其 "
			       "resources.limits 中加上 {list}。",
    [GQ_MSG_RULE_USER_NAMESPACE] =
	"Pod 没有独立的用户命名空间：请在其 spec 中设置 {field}: false。",
    [GQ_MSG_RULE_USER_NAMESPACE_HOST] =
	"此处的 Pod 须使用用户命名空间，而它不能与 {field}: true 同时使用：请去掉 {field} 并在 Pod "
	"的 spec 中设置 hostUsers: false，或请集群管理员豁免该命名空间。",
    [GQ_MSG_RULE_USER_NAMESPACE_WINDOWS] =
	"此处的 Pod 须使用用户命名空间，而 Windows 没有这一功能（{field}: "
	"windows）：请集群管理员豁免该命名空间。",
    [GQ_MSG_RULE_PROBE] = "{container} 占用 GPU，却没有 readinessProbe 或 "
			  "startupProbe，模型尚未加载完就会收到流量：请加上其中一种探针。",
    [GQ_MSG_RULE_LEFT_OUT] = "另有 {count} 处问题未在此列出。",
    [GQ_MSG_RULE_UNREADABLE] = "Pod 所引用的对象（申领、其 PersistentVolume 或 "
			       "ConfigMap）暂时无法读取，因此无法判断能否创建：请几秒后重试。",
    [GQ_MSG_RULE_ENV_MAPS] = "{container} 从过多的 ConfigMap 引入环境变量，无法逐一检查：请减少 "
			     "ConfigMap 的数量，或逐个写明变量。",
    [GQ_MSG_RULE_ENV_BEYOND] =
	"{container} 设置了 {name}（{value}），会取代设备插件为它分配的 GPU，从而可能使用其他 "
	"GPU：请去掉这个环境变量。",
    [GQ_MSG_RULE_PLACED] =
	"Pod 带有注解 {name}，它由 HAMi 用来记录已分配的 GPU，不应由他人写入：请去掉该注解。",
    [GQ_MSG_UNSUPPORTED_RESOURCE] =
	"{container} 申请了 {name}（{detail}），本版本的 gpuquota 无法统计，因此拒绝此 Pod："
	"请改为申请 nvidia.com/gpu 或 amd.com/gpu。",
    [GQ_MSG_UNSUPPORTED_ANNOTATION] =
	"注解 {name} 申请了 GPU（{detail}），本版本的 gpuquota 无法统计，因此拒绝此 Pod："
	"请删除该注解，改为在 resources.limits 中申请 nvidia.com/gpu 或 amd.com/gpu。",
    [GQ_MSG_BAD_QUANTITY] =
	"{container} 申请了 {name}: {value}，该数量无法统计（{detail}），因此拒绝此 Pod："
	"请填写大于或等于 0 的整数。",
    [GQ_MSG_TOO_BIG] = "此 Pod 的节点选择器、节点亲和性、容忍度和 GPU 申请超过 gpuquota 为单个 Pod "
		       "保存的长度（16 KiB），因此拒绝此 Pod：请将其缩短。",
    [GQ_MSG_OBJECT_TOO_BIG] =
	"该对象的内容超出 gpuquota 能够检查的范围（{detail}），因此被拒绝：请将其精简。",
    [GQ_MSG_CLAIM] =
	"资源申领 {claim} 申请了设备类 {device_class} 的设备，该设备可能是 GPU，而本版本的 "
	"gpuquota 无法统计资源申领，因此拒绝此 Pod：请在 resources.limits 中申请 "
	"nvidia.com/gpu 或 amd.com/gpu；若该设备类不含 GPU，请联系集群管理员为其 DeviceClass "
	"添加针对 device.driver 的选择器。",
    [GQ_MSG_CLAIM_UNREADABLE] =
	"无法读取资源申领 {claim}（{detail}），因而无法得知它是否申请了 GPU，所以拒绝此 Pod："
	"请先创建该申领或其模板，再创建 Pod。",
    [GQ_MSG_CLASS_UNREADABLE] =
	"资源申领 {claim} 申请了设备类 {device_class} 的设备，而 DeviceClass {device_class} "
	"不存在或 gpuquota 无权读取，因而无法判断它是否为 GPU，所以拒绝此 Pod：请使用已有的 "
	"DeviceClass（用 kubectl get deviceclasses 查看），或联系集群管理员授权 gpuquota "
	"读取它。",
    [GQ_MSG_OWNER_ATTEMPTS] =
	"{owner} 先前有 {count} 个 Pod 获准后始终未出现，应是被 gpuquota "
	"之后的环节拒绝（例如 ResourceQuota 或其他 webhook）：请查看 {owner} 的事件。这些 "
	"Pod 的 GPU 最迟 {seconds} 秒后归还，届时可以重试。",
    [GQ_MSG_REQUEST_UID_REUSED] =
	"此请求的 UID 与先前另一个 Pod 的请求相同，因此被拒绝：请作为新的请求重新发送。",
    [GQ_MSG_BINDING_NO_ROOM] =
	"此 Pod 不能调度到节点 {node}（GPU 型号：{class}）：租户 {tenant} 的配额为 {limit}，"
	"已占用 {used}，而此 Pod 申请 {asks}。GPU 释放后即可调度到该节点；用 nodeSelector "
	"选择其他型号则无需等待。",
    [GQ_MSG_BINDING_UNLISTED] =
	"此 Pod 不能调度到节点 {node}（GPU 型号：{class}）：租户 {tenant} 没有该型号的配额。"
	"请用 nodeSelector 为此 Pod 选择 {tenant} 有配额的型号，或联系集群管理员申请 {class} "
	"的配额。",
    [GQ_MSG_EARLIER_BINDING] =
	"此 Pod 先前绑定到另一型号 GPU 的请求可能仍未完成，因此现在不能调度到节点 {node}。"
	"约一分钟内会自行恢复。",
    [GQ_MSG_POLICY_INVALID] =
	"策略被拒绝，之前的策略继续生效。请更正以下问题后重新应用：\n{problems}",
    [GQ_MSG_POLICY_NO_KEY] =
	"此 ConfigMap 的 data 下没有键 {key}，因此策略被拒绝，之前的策略继续生效："
	"请将完整的策略放在该键下。",
    [GQ_MSG_NOT_SYNCED] =
	"gpuquota 尚未读完集群的节点、Pod 和策略，在此之前不作任何决定：请几秒后重试。",
    [GQ_MSG_NOT_LEADER] =
	"此 gpuquota 副本不是主副本，不作任何决定：请重试，Service 会将请求转到主副本。",
    [GQ_MSG_JOURNAL] = "gpuquota 目前无法可靠地记录预留，因此不作预留：请一分钟后重试。"
		       "集群管理员可在其日志和 ConfigMap gpuquota-status 中查看原因。",
    [GQ_MSG_JOURNAL_FULL] = "该租户获准但尚未出现的 Pod 过多，因此暂不批准新的 Pod：请几秒后重试。",
    [GQ_MSG_WATCH_LAGS] = "gpuquota 所见的集群 Pod 状态已滞后五秒以上，在跟上之前不再批准新的 Pod："
			  "请几秒后重试。",
    [GQ_MSG_OVERLOADED] =
	"gpuquota 排队的请求超出其处理能力，因此未对此请求作出决定，也未作任何预留："
	"请几秒后重试。",
    [GQ_MSG_NO_MEMORY] =
	"gpuquota 目前内存不足，因此未对此请求作出决定，也未作任何预留：请几秒后重试。",
    [GQ_MSG_TOO_LATE] = "API 服务器等待此响应的时间已到，而决定尚未作出，未作任何预留：请重试。",
    [GQ_MSG_BAD_REVIEW] =
	"该请求不是可以处理的 admission.k8s.io/v1 AdmissionReview：{detail}。请检查该 "
	"webhook 的注册配置向此处发送了什么。",
    [GQ_MSG_WARNINGS_CUT] = "还有更多警告未显示：Kubernetes 最多传递 4096 个字符的警告。",
    [GQ_MSG_WARNING_PREFIX] = "在 enforce 模式下会被拒绝：",
    [GQ_MSG_STATES] = "已绑定 {bound}，待调度 {pending}，已预留 {reserved}",
    [GQ_MSG_STATES_TERMINATING] =
	"已绑定 {bound}，待调度 {pending}，已预留 {reserved}，正在终止 {terminating}",
    [GQ_MSG_HOLDER] = "{holder}（{holds}）",
    [GQ_MSG_LIST_SEPARATOR] = "、",
    [GQ_MSG_OR_SEPARATOR] = " 或 ",
    [GQ_MSG_PATH_READ_ONLY] = "{path}（只读）",
    [GQ_MSG_ENV_FROM_MAP] = "{container} 通过 envFrom 的 ConfigMap {source}",
    [GQ_MSG_OWNER_POD] = "Pod {name}",
    [GQ_MSG_WORKLOAD] = "{workload}：",
    [GQ_MSG_WORKLOAD_PODS_ONE] = "{count} 个 Pod，每个 {each}",
    [GQ_MSG_WORKLOAD_PODS_MANY] = "{count} 个 Pod，每个 {each}",
    [GQ_MSG_WORKLOAD_MORE_ONE] = "新增 {count} 个 Pod，每个 {each}",
    [GQ_MSG_WORKLOAD_MORE_MANY] = "新增 {count} 个 Pod，每个 {each}",
    [GQ_MSG_WORKLOAD_SURGE] = "{pods}，滚动更新时另加 {surge} 个",
    [GQ_MSG_WORKLOAD_EACH] = "{each} 张",
    [GQ_MSG_WORKLOAD_INSTEAD] = "{pods}；取代原有的 {old}",
    [GQ_MSG_CLASS_UNKNOWN] = "未知",
    [GQ_MSG_UNLIMITED] = "不限",
    [GQ_MSG_GPUS_ONE] = "{count} 张 GPU",
    [GQ_MSG_GPUS_MANY] = "{count} 张 GPU",
    [GQ_MSG_GPUS_CLASS_ONE] = "{count} 张 {class} GPU",
    [GQ_MSG_GPUS_CLASS_MANY] = "{count} 张 {class} GPU",
    [GQ_MSG_GPUS_ANY_ONE] = "{count} 张 GPU（不限型号）",
    [GQ_MSG_GPUS_ANY_MANY] = "{count} 张 GPU（不限型号）",
    [GQ_MSG_GPUS_OTHER_ONE] = "{count} 张未列出型号的 GPU",
    [GQ_MSG_GPUS_OTHER_MANY] = "{count} 张未列出型号的 GPU",
    [GQ_MSG_MEMORY] = "{amount} 显存",
    [GQ_MSG_MEMORY_CLASS] = "{amount} {class} 显存",
    [GQ_MSG_MEMORY_ANY] = "{amount} GPU 显存",
    [GQ_MSG_MEMORY_OTHER] = "{amount} 未列出型号的显存",
    [GQ_MSG_KIND_NVIDIA_SLICES] = "NVIDIA 设备插件改名后的时间片",
    [GQ_MSG_KIND_NVIDIA_MEMORY] = "HAMi 不提供的 NVIDIA 显存资源",
    [GQ_MSG_KIND_NVIDIA] = "未知的 NVIDIA 资源",
    [GQ_MSG_KIND_AMD] = "未知的 AMD 资源",
    [GQ_MSG_KIND_AMD_HAMI] = "HAMi 的 AMD vGPU",
    [GQ_MSG_KIND_KAI] = "KAI Scheduler 的 GPU 共享",
    [GQ_MSG_KIND_PLUGIN] = "未知的 GPU 设备插件",
    [GQ_MSG_QUANTITY_LARGE] = "数值过大",
    [GQ_MSG_QUANTITY_NEGATIVE] = "不能为负数",
    [GQ_MSG_QUANTITY_NONE] = "不是 Kubernetes 的数量格式",
    [GQ_MSG_QUANTITY_FRACTION] = "必须是整数",
    [GQ_MSG_CLAIM_CLASSES] = "引用的设备类过多",
    [GQ_MSG_CLAIM_NAMES_NONE] = "没有指明申领或模板",
    [GQ_MSG_CLAIM_MANY] = "此 Pod 的资源申领过多",
    [GQ_MSG_CLAIM_ABSENT] = "所引用的申领尚不存在，请先创建",
    [GQ_MSG_CLAIM_FORBIDDEN] = "gpuquota 无权读取",
    [GQ_MSG_CLAIM_FORM] = "本版本不认识 {field} 的写法",
};
