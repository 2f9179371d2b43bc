/* tests/proto: configuration files, right ones and wrong ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/conf.h"
#include "proto/keep.h"
#include "proto/conf_fold.h"
#include "proto/pb.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* A world of files, and the notes that a parse gave. */
struct world {
	const char *name[4], *text[4];
	char notes[8192];
};

static int world_read(void *arg, const char *name, struct mu_arena *arena, const char **ret_text,
		      struct mu_err *err)
{
	struct world *w = arg;
	for (size_t i = 0; i < ROWS(w->name); i++)
		if (w->name[i] && !strcmp(w->name[i], name)) {
			if (!w->text[i])
				return mu_fail(err, MU_EPERM, "may not be read");
			*ret_text = w->text[i];
			return 0;
		}
	return MU_ENOENT;
}

static void world_note(void *arg, const char *sentence)
{
	struct world *w = arg;
	size_t len = strlen(w->notes);
	snprintf(w->notes + len, sizeof(w->notes) - len, "%s\n", sentence);
}

static int parse(struct world *w, const char *text, struct mu_arena *arena, Mu__Config **ret,
		 struct mu_err *err)
{
	w->notes[0] = 0;
	return mu_conf_parse("c", text, world_read, world_note, w, arena, ret, err);
}

static int count_of(const char *text, const char *word)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, word)); p++)
		n++;
	return n;
}

static char *load(const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", TEST_DIR, name);
	FILE *f = fopen(path, "re");
	cr_assert(f, "%s", path);
	char *text = calloc(1, 65536);
	size_t n = fread(text, 1, 65535, f);
	cr_assert(n > 0 && n < 65535);
	fclose(f);
	return text;
}

Test(conf, first_file)
{
	struct world w = {.notes = ""};
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Config *c;
	char *text = load("first.conf");
	cr_assert_eq(parse(&w, text, &arena, &c, &err), 0, "%s", err.text);
	cr_assert_str_eq(c->cluster_name, "lab");
	cr_assert_eq(c->n_controller, 2);
	cr_assert_str_eq(c->controller[0]->name, "head1");
	cr_assert_str_eq(c->controller[0]->addr, "127.0.0.1");
	cr_assert(c->controller[0]->port == 6817 && c->controller[0]->peer_port == 6819);
	cr_assert_str_eq(c->controller[1]->name, "head2");
	cr_assert_str_eq(c->controller[1]->addr, "127.0.0.2");
	cr_assert_eq(c->n_node, 3);
	cr_assert_str_eq(c->node[1]->name, "node02");
	cr_assert(c->node[1]->cpus == 4 && c->node[1]->sockets == 4 && c->node[1]->real_memory_mib == 4000 &&
		  c->node[1]->port == 6818);
	cr_assert_str_eq(c->node[1]->state, "UNKNOWN");
	cr_assert(c->node[2]->n_gres == 1 && c->node[2]->gres[0]->count == 2 && c->node[2]->n_feature == 2);
	cr_assert_str_eq(c->node[2]->gres[0]->type, "a100");
	cr_assert_eq(c->n_partition, 2);
	cr_assert(c->partition[0]->is_default && !c->partition[1]->is_default &&
		  c->partition[0]->n_node == 3);
	cr_assert(c->partition[0]->max_time_sec == 3600 && c->partition[1]->max_time_sec == 172800);
	cr_assert(c->partition[1]->priority_tier == 10 && c->partition[1]->priority_job_factor == 10);
	cr_assert_str_eq(c->partition[1]->qos, "gpu");
	cr_assert(c->return_to_service == 2 && c->min_job_age_sec == 300 && c->job_requeue);
	cr_assert_str_eq(mu_conf_get(c, "SELECTTYPE", ""), "select/cons_tres");
	cr_assert_str_eq(mu_conf_get(c, "SelectTypeParameters", ""), "CR_CORE");
	cr_assert_str_eq(mu_conf_get(c, "PriorityDecayHalfLife", ""), "7-00:00:00");
	cr_assert_str_eq(mu_conf_get(c, "KillWait", ""), "30 sec");
	cr_assert_str_eq(mu_conf_get(c, "SlurmctldPidFile", ""), "/var/run/slurmctld.pid");
	cr_assert_str_eq(mu_conf_get(c, "TaskPlugin", "unset"), "unset", "task/none reads as unset");
	cr_assert_str_eq(mu_conf_get(c, "SwitchType", "unset"), "unset");
	cr_assert_str_eq(mu_conf_get(c, "NoSuchKey", "unset"), "unset");
	/* Each remark once. */
	cr_assert_eq(count_of(w.notes, "select/cons_tres"), 1, "%s", w.notes);
	cr_assert_eq(count_of(w.notes, "accounting database"), 1, "%s", w.notes);
	cr_assert_eq(count_of(w.notes, "SlurmctldHost=NAME(ADDRESS)"), 1, "%s", w.notes);
	cr_assert_eq(count_of(w.notes, "PriorityTier"), 1, "%s", w.notes);
	cr_assert_eq(count_of(w.notes, "even number"), 1, "%s", w.notes);
	cr_assert_eq(count_of(w.notes, "switch/none") + count_of(w.notes, "task/none"), 0, "%s", w.notes);
	mu_arena_free(&arena);
	free(text);
}

Test(conf, site_file)
{
	struct world w = {.notes = ""};
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Config *c;
	char *text = load("site.conf");
	cr_assert_eq(parse(&w, text, &arena, &c, &err), 0, "%s", err.text);
	cr_assert(c->n_node == 14 && c->n_partition == 3 && c->n_controller == 1);
	cr_assert(c->partition[0]->n_node == 4 && c->partition[2]->n_node == 14 &&
		  c->partition[0]->default_time_sec == 3600);
	cr_assert(c->partition[2]->max_time_sec == -1 && c->partition[2]->hidden &&
		  c->over_time_limit_sec == UINT32_MAX);
	cr_assert(c->node[0]->cpus == 32 && c->node[4]->n_gres == 2 &&
		  c->node[4]->mem_spec_limit_mib == 4096);
	cr_assert_str_eq(c->node[3]->state, "DRAIN");
	cr_assert_str_eq(mu_conf_get(c, "TaskPlugin", ""), "task/affinity,task/cgroup");
	cr_assert_str_eq(mu_conf_get(c, "EnforcePartLimits", ""), "ALL");
	cr_assert_str_eq(mu_conf_get(c, "SuspendTime", ""), "INFINITE");
	cr_assert_str_eq(mu_conf_get(c, "MaxMemPerNode", ""), "UNLIMITED");
	cr_assert_eq(count_of(w.notes, "dropped this key long ago"), 1, "%s", w.notes);
	mu_arena_free(&arena);
	free(text);
}

static const char right_alone[] = "ClusterName=c\nSlurmctldHost=a\nGresTypes=gpu,lic\nNodeName=n[3-5]\n";

Test(conf, syntax_and_companions)
{
	struct world w = {
	    .name = {"gres.conf", "cgroup.conf", "more.conf"},
	    .text =
		{"# devices\nName=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-3\nNodeName=n[3-4] name=gpu "
		 "type=h100 file=/dev/nvidia0 flags=opencl_env links=-1,4\n"
		 "NodeName=n4 Name=gpu Type=h100 File=/dev/nvidia1\nName=lic "
		 "Count=2k\nAutoDetect=nvml\nNodeName=n4 AutoDetect=off\nNodeName=n5 Name=gpu File=/dev/x\n",
		 "ConstrainRAMSpace=no\nConstrainCores=yes # all\n",
		 "KillWait=7\nPartitionName=p3 Nodes=big,n1\n"},
	    .notes = "",
	};
	static const char text[] =
	    "clustername = \"c 1\"\r\nCLUSTERNAME=c1 # the last counts\n"
	    "SlurmctldHost=a(10.0.0.1:7000:7001)\nslurmctldhost=b(10.0.0.2:7000)\nSlurmctldHost=c\n"
	    "  Include   more.conf  \n"
	    "GresTypes=gpu,lic\nSlurmdDebug=3 MailProg=/bin/a\\#b DefMemPerCPU=2G "
	    "SchedulerParameters=a=1,bf_window=x,bf_max_job_array_resv=2,b=2\nSchedulerTimeSlice=60\n"
	    "# a comment that ends in a backslash \\\nMinJobAge=\\\n10\n"
	    "NodeName=DEFAULT Weight=5 Feature=x,y Reason=\"two words # here\" TmpDisk=10\n"
	    "NodeName=n[1-2] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Gres=gpu:a100:4(S:0-1) "
	    "NodeAddr=10.1.0.[1-2] Port=[7101-7102]\n"
	    "NodeName=n3 CPUs=8 CoresPerSocket=4 Gres=gpu:h100:1 NodeHostname=host3 Weight=0 Features=z\n"
	    "NodeName=n4 Gres=gpu:2,lic:5 State=idle\nNodeName=n5\nDownNodes=n5 State=DOWN Reason=broken\n"
	    "NodeSet=big Nodes=n3 Feature=y\n"
	    "PartitionName=DEFAULT MaxTime=10 State=down AllowGroups=a,b MinNodes=0\n"
	    "PartitionName=p1 Nodes=ALL Default=yes MaxNodes=2 OverSubscribe=force "
	    "TRESBillingWeights=\"CPU=1.0\"\n"
	    "PartitionName=p2 Nodes=n2,n1 MaxTime=UNLIMITED DefaultTime=5:00 AllowGroups=ALL "
	    "MaxNodes=UNLIMITED Shared=YES:2\n";
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Config *c;
	cr_assert_eq(parse(&w, text, &arena, &c, &err), 0, "%s", err.text);
	cr_assert_str_eq(c->cluster_name, "c1");
	cr_assert(strstr(w.notes, "ClusterName is set more than once"), "%s", w.notes);
	cr_assert(c->controller[0]->port == 7000 && c->controller[0]->peer_port == 7001 &&
		  c->controller[1]->peer_port == 7002);
	cr_assert(c->controller[2]->port == 6817 && !strcmp(c->controller[2]->addr, "c"));
	cr_assert(c->kill_wait_sec == 7 && c->min_job_age_sec == 10 && c->def_mem_cpu_mib == 2048 &&
		  !c->has_def_mem_node_mib);
	cr_assert_str_eq(mu_conf_get(c, "SlurmdDebug", ""), "info");
	cr_assert_str_eq(mu_conf_get(c, "MailProg", ""), "/bin/a#b");
	cr_assert_str_eq(mu_conf_get(c, "SchedulerParameters", ""),
			 "a=1,bf_window=x,bf_max_job_array_resv=2,b=2");
	cr_assert_str_eq(mu_conf_get(c, "DefMemPerCPU", ""), "2048");
	cr_assert_str_eq(mu_conf_get(c, "DefMemPerNode", "unset"), "unset");
	cr_assert(!mu_conf_on(c, "ConstrainRAMSpace", 1) && mu_conf_on(c, "ConstrainCores", 0) &&
		  mu_conf_on(c, "ConstrainDevices", 1));
	const Mu__NodeConf *n1 = c->node[0], *n3 = c->node[2], *n4 = c->node[3], *n5 = c->node[4];
	cr_assert(n1->cpus == 16 && n1->port == 7101 && n1->weight == 5 && n1->tmp_disk_mib == 10 &&
		  n1->n_feature == 2);
	cr_assert_str_eq(c->node[1]->addr, "10.1.0.2");
	cr_assert_str_eq(n1->reason, "two words # here");
	cr_assert(n1->n_gres == 1 && n1->gres[0]->n_file == 4);
	cr_assert_str_eq(n1->gres[0]->file[3], "/dev/nvidia3");
	cr_assert_str_eq(n1->gres[0]->cores, "0-3");
	cr_assert(n3->cpus == 8 && n3->sockets == 2 && n3->weight == 0 && n3->n_gres == 1 &&
		  n3->gres[0]->n_file == 1 && n3->n_feature == 1);
	cr_assert(!strcmp(n3->hostname, "host3") && !strcmp(n3->addr, "host3"));
	/* gpu:2 without a type takes what gres.conf lists first: the a100 line is for every node. */
	cr_assert(!n4->has_cpus && n4->n_gres == 2 && n4->gres[0]->count == 2 && n4->gres[1]->count == 5 &&
		  n4->gres[1]->n_file == 0);
	cr_assert_str_eq(n5->state, "DOWN");
	cr_assert_str_eq(n5->reason, "broken");
	cr_assert(strstr(w.notes, "NodeName line of n5 has no Gres=gpu"), "%s", w.notes);
	/* Every node looks for cards but the one whose own line says otherwise; jobs are told in their way.
	 */
	cr_assert(n1->gpu_detect && !strcmp(n1->gpu_detect, "nvml") && !n4->gpu_detect);
	cr_assert(n1->gres[0]->env == MU_GPU_ENV_NVIDIA && n3->gres[0]->env == MU_GPU_ENV_OPENCL);
	cr_assert(n3->gres[0]->n_links == 1 && !strcmp(n3->gres[0]->links[0], "-1,4") &&
		  !n4->gres[0]->has_env);
	cr_assert(strstr(w.notes, "SchedulerParameters=a=1") && strstr(w.notes, "SchedulerParameters=b=2"),
		  "%s", w.notes);
	cr_assert(strstr(w.notes, "bf_window needs a number") && strstr(w.notes, "above 1 acts as 1"), "%s",
		  w.notes);
	cr_assert(strstr(w.notes, "without effect: ") && strstr(w.notes, "SchedulerTimeSlice"), "%s",
		  w.notes);
	/* Lines of included files come where they are included. */
	const Mu__PartitionConf *p3 = c->partition[0], *p1 = c->partition[1], *p2 = c->partition[2];
	cr_assert_str_eq(p3->name, "p3");
	cr_assert_eq(p3->n_node, 5, "the set has n3 and the nodes with feature y");
	cr_assert(p1->n_node == 5 && p1->max_time_sec == 600 && p1->max_nodes == 2 &&
		  p1->n_allow_groups == 2 && !strcmp(p1->state, "DOWN"));
	cr_assert_str_eq(p1->oversubscribe, "FORCE:4");
	cr_assert(p1->n_extra == 1 && !strcmp(p1->extra[0]->value, "CPU=1.0"));
	cr_assert(p2->n_node == 2 && !strcmp(p2->node[0], "n1") && p2->max_time_sec == -1 &&
		  p2->default_time_sec == 300 && !p2->n_allow_groups && !p2->has_max_nodes);
	cr_assert_str_eq(p2->oversubscribe, "YES:2");
	/* A different text has a different hash. */
	Mu__Config *other;
	cr_assert_eq(parse(&w, right_alone, &arena, &other, &err), 0, "%s", err.text);
	cr_assert(memcmp(other->source_hash.data, c->source_hash.data, 32));
	cr_assert_str_eq(mu_conf_path("/a/%n/%%n/%x%", "h", &arena), "/a/h/%n/%x%");
	mu_arena_free(&arena);
}

/* Each wrong text behind four right lines, so a fault on its first line is on line 5. Every sentence names
 * the line where there is one, the value, and what is allowed. */
static const char right[] = "ClusterName=c\nSlurmctldHost=a\nGresTypes=gpu\nNodeName=n[1-3] CPUs=4\n";

static const struct {
	const char *text, *line, *value, *cure;
} wrong[] = {
    {"TopologyPlugin=topology/tree\nSwitchName=s1 Nodes=n[1-9]", "c line 6", "n4",
     "no NodeName line declares"},
    {"TopologyPlugin=topology/tree\nSwitchName=s1 Switches=s2", "c", "s2", "no line declares"},
    {"TopologyPlugin=topology/tree\nSwitchName=s1", "c line 6", "s1", "neither Nodes nor Switches"},
    {"TopologyPlugin=topology/block\nBlockName=b1 Nodes=n1\nBlockName=b1 Nodes=n2", "c line 7", "b1",
     "declared twice"},
    {"TopologyPlugin=topology/block\nBlockName=b1 Switches=n1", "c line 6", "Switches", "does not belong"},
    {"KilWait=3", "c line 5", "KilWait", "did you mean KillWait"},
    {"SlurmctldPrt=1", "c line 5", "SlurmctldPrt", "did you mean SlurmctldPort"},
    {"NodNeame=n9", "c line 5", "NodNeame", "did you mean NodeName"},
    {"PartitonName=p Nodes=n1", "c line 5", "PartitonName", "did you mean PartitionName"},
    {"MailProg=/b\xffin", "c line 5", "bytes", "UTF-8"},
    {"Zzyzx=1", "c line 5", "Zzyzx", "unknown key"},
    {"KillWait=soon", "c line 5", "soon", "whole number from 1 to 65533"},
    {"KillWait=0", "c line 5", "\"0\"", "from 1 to 65533"},
    {"KillWait=99999999999999999999", "c line 5", "99999999999999999999", "from 1 to 65533"},
    {"KillWait=", "c line 5", "KillWait", "has no value"},
    {"KillWait", "c line 5", "KillWait", "KEY=VALUE"},
    {"KillWait 30", "c line 5", "KillWait", "KEY=VALUE"},
    {"=30", "c line 5", "=30", "KEY=VALUE"},
    {"MailProg=\"abc", "c line 5", "MailProg", "does not close"},
    {"NodeName=$(hostname) CPUs=4", "c line 5", "$(hostname)", "unexpanded shell expression on line 5"},
    {"SlurmctldHost=`hostname`", "c line 5", "`hostname`", "unexpanded shell expression"},
    {"ClusterName=${NAME}", "c line 5", "${NAME}", "unexpanded shell expression"},
    {"\n\nNodeName=\\\n$(hostname)", "c line 7", "$(hostname)", "unexpanded shell expression on line 7"},
    {"ReturnToService=3", "c line 5", "\"3\"", "from 0 to 2"},
    {"JobRequeue=maybe", "c line 5", "maybe", "yes or no"},
    {"SchedulerType=sched/magic", "c line 5", "sched/magic", "sched/backfill, sched/builtin"},
    {"SelectType=select/none", "c line 5", "select/none", "one of select/cons_tres"},
    {"SelectTypeParameters=CR_Core,CR_Magic", "c line 5", "CR_Magic", "CR_CORE"},
    {"AuthType=auth/none", "c line 5", "auth/none", "auth/munge"},
    {"EnforcePartLimits=SOME", "c line 5", "SOME", "NO, ANY, ALL"},
    {"PriorityDecayHalfLife=1week", "c line 5", "1week", "days-hours"},
    {"DefMemPerCPU=lots", "c line 5", "lots", "K, M, G or T"},
    {"DefMemPerCPU=1\nDefMemPerNode=2", "c:", "DefMemPerNode", "exclude each other"},
    {"SlurmdSpoolDir=spool", "c:", "\"spool\"", "absolute path"},
    {"ClusterName=a/b", "c:", "a/b", "letters, digits"},
    {"FirstJobId=100\nMaxJobId=10", "c:", "100", "above MaxJobId"},
    {"SlurmctldHost=a", "c line 5", "controller a", "twice, first on line 2"},
    {"SlurmctldHost=b(", "c line 5", "b(", "NAME(ADDRESS:PORT"},
    {"SlurmctldHost=b(x:0)", "c line 5", "b(x:0)", "NAME(ADDRESS:PORT"},
    {"SlurmctldHost=b(x:1:1)", "c line 5", "controller b", "two different ports"},
    {"SlurmctldHost=b(x:1:2:3)", "c line 5", "b(x:1:2:3)", "NAME(ADDRESS:PORT"},
    {"SlurmctldPort=70000", "c line 5", "70000", "from 1 to 65533"},
    {"CPUs=4 NodeName=n9", "c line 5", "CPUs", "begins with NodeName="},
    {"MaxTime=4", "c line 5", "MaxTime", "begins with PartitionName="},
    {"ConstrainCores=yes", "c line 5", "ConstrainCores", "belongs in cgroup.conf"},
    {"NodeName=n1", "c line 5", "n1", "declared twice"},
    {"NodeName=m[1-2,2]", "c line 5", "m2", "declared twice"},
    {"NodeName=m[3-1]", "c line 5", "m[3-1]", "runs backwards"},
    {"NodeName=m[1-2", "c line 5", "m[1-2", "does not close"},
    {"NodeName=m[0-99999]", "c line 5", "m[0-99999]", "more than 65536"},
    {"NodeName=,", "c line 5", "\",\"", "names no node"},
    {"NodeName=m1 CPU=4", "c line 5", "CPU", "did you mean CPUs"},
    {"NodeName=m1 Frobs=4", "c line 5", "Frobs", "has no word"},
    {"NodeName=m1 CPUs=0", "c line 5", "\"0\"", "from 1 to 65535"},
    {"NodeName=m1 CPUs=4 CPUs=5", "c line 5", "CPUs", "twice on the line"},
    {"NodeName=m1 CPUs=5 Sockets=2 CoresPerSocket=2", "c line 5", "is 5", "make 4"},
    {"NodeName=m1 Sockets=60000 CoresPerSocket=60000", "c line 5", "3600000000", "at most 65535"},
    {"NodeName=m1 RealMemory=0", "c line 5", "RealMemory", "at least 1"},
    {"NodeName=m1 RealMemory=much", "c line 5", "much", "K, M, G or T"},
    {"NodeName=m1 State=SLEEPY", "c line 5", "SLEEPY", "UNKNOWN CLOUD DOWN"},
    {"NodeName=m1 Port=0", "c line 5", "\"0\"", "from 1 to 65535"},
    {"NodeName=m[1-3] NodeAddr=x[1-2]", "c line 5", "2 values for 3", "one for each"},
    {"NodeName=m1 Gres=gpu:x:y", "c line 5", "gpu:x:y", "name:type:count"},
    {"NodeName=m1 Gres=fpga:1", "c line 5", "fpga", "GresTypes=fpga"},
    {"NodeName=DEFAULT NodeAddr=x", "c line 5", "NodeAddr", "NodeName=DEFAULT cannot"},
    {"DownNodes=n9 State=DOWN", "c line 5", "n9", "did you mean n1"},
    {"DownNodes=n1 State=UP", "c line 5", "UP", "DOWN DRAIN"},
    {"NodeSet=s", "c line 5", "s", "Nodes= or Feature="},
    {"NodeSet=n1 Nodes=n2", "c line 5", "n1", "a node's name"},
    {"NodeSet=s Node=n2", "c line 5", "Node", "takes Nodes and Feature"},
    {"PartitionName=p Nodes=n[1-4]", "c line 5", "n4", "did you mean n1"},
    {"PartitionName=p Nodes=zebra", "c line 5", "zebra", "no NodeName line declares"},
    {"PartitionName=p Nodes=n1\nPartitionName=p Nodes=n2", "c line 6", "partition p", "declared twice"},
    {"PartitionName=p Nodes=n1 MaxTme=4", "c line 5", "MaxTme", "did you mean MaxTime"},
    {"PartitionName=p Nodes=n1 MaxTime=5m", "c line 5", "5m", "minutes"},
    {"PartitionName=p Nodes=n1 State=OPEN", "c line 5", "OPEN", "UP DOWN DRAIN INACTIVE"},
    {"PartitionName=p Nodes=n1 Default=2", "c line 5", "\"2\"", "YES or NO"},
    {"PartitionName=p Nodes=n1 MaxNodes=x", "c line 5", "\"x\"", "or UNLIMITED"},
    {"PartitionName=p Nodes=n1 MinNodes=3 MaxNodes=2", "c line 5", "3", "above MaxNodes"},
    {"PartitionName=p Nodes=n1 MaxTime=5 DefaultTime=6", "c line 5", "DefaultTime", "above MaxTime"},
    {"PartitionName=p Nodes=n1 OverSubscribe=SOME", "c line 5", "SOME", "FORCE[:COUNT]"},
    {"PartitionName=p Nodes=n1 OverSubscribe=FORCE:0", "c line 5", "FORCE:0", "FORCE[:COUNT]"},
    {"PartitionName=p Nodes=n1 DefMemPerCPU=1 DefMemPerNode=1", "c line 5", "DefMemPerCPU",
     "exclude each other"},
    {"PartitionName=p,q Nodes=n1", "c line 5", "p,q", "one name"},
    {"Include nowhere.conf", "c line 5", "nowhere.conf", "not there"},
    {"Include secret.conf", "c line 5", "secret.conf", "may not be read"},
    {"Include loop.conf", "loop.conf line 2", "loop.conf", "include itself"},
    {"Include bad.conf", "bad.conf line 3", "Kilwait", "did you mean KillWait"},
};

/* The same for gres.conf and cgroup.conf. */
static const struct {
	const char *name, *text, *line, *value, *cure;
} wrong_companion[] = {
    {"gres.conf", "Name=gpu File=/dev/nvidia[0-1]", "gres.conf line 1", "n1", "gives it only 2"},
    {"gres.conf", "Name=gpu Count=4 File=/dev/nvidia[0-1]", "gres.conf line 1", "4", "names 2 devices"},
    {"gres.conf", "Name=gpu File=nvidia0", "gres.conf line 1", "nvidia0", "absolute path"},
    {"gres.conf", "Name=gpu File=/dev/nvidia[0-1", "gres.conf line 1", "/dev/nvidia[0-1", "does not close"},
    {"gres.conf", "File=/dev/nvidia0", "gres.conf line 1", "Name=", "which resource"},
    {"gres.conf", "Name=fpga", "gres.conf line 1", "fpga", "GresTypes=fpga"},
    {"gres.conf", "\nNodeName=n9 Name=gpu", "gres.conf line 2", "n9", "no NodeName line declares"},
    {"gres.conf", "Name=gpu Cores=a", "gres.conf line 1", "\"a\"", "0-3,8"},
    {"gres.conf", "AutoDetect=oneapi", "gres.conf line 1", "oneapi", "not known to this version"},
    {"gres.conf", "AutoDetect=nvlm", "gres.conf line 1", "\"nvlm\"", "nvml, nvidia, rsmi or off"},
    {"gres.conf", "Name=gpu Count=4 Flags=nvidia_gpu_env,x", "gres.conf line 1", "x", "Flags has no word"},
    {"gres.conf", "Name=gpu Count=4 Links=a", "gres.conf line 1", "\"a\"", "-1,16,16"},
    {"gres.conf", "Name=gpu Count=x", "gres.conf line 1", "\"x\"", "whole number"},
    {"gres.conf", "Name=gpu Fille=/dev/x", "gres.conf line 1", "Fille", "did you mean File"},
    {"gres.conf", "Name=gpu File=$(ls)", "gres.conf line 1", "$(ls)", "unexpanded shell"},
    {"cgroup.conf", "ConstrainRAMSpac=yes", "cgroup.conf line 1", "ConstrainRAMSpac",
     "did you mean ConstrainRAMSpace"},
    {"cgroup.conf", "ConstrainCores=perhaps", "cgroup.conf line 1", "perhaps", "yes or no"},
    {"cgroup.conf", "KillWait=3", "cgroup.conf line 1", "KillWait", "belongs in the main file"},
    {"cgroup.conf", "CgroupPlugin=cgroup/v3", "cgroup.conf line 1", "cgroup/v3", "cgroup/v2"},
};

static void check(const struct mu_err *err, int rc, const char *text, const char *line, const char *value,
		  const char *cure)
{
	cr_assert(rc == MU_EINVAL || rc == MU_ESYNTAX, "%s gives %d", text, rc);
	cr_assert_eq(strncmp(err->text, line, strlen(line)), 0, "%s: \"%s\" does not begin with %s", text,
		     err->text, line);
	cr_assert(strstr(err->text, value), "%s: \"%s\" does not name %s", text, err->text, value);
	cr_assert(strstr(err->text, cure), "%s: \"%s\" does not say %s", text, err->text, cure);
	cr_assert(!strchr(err->text, '\n') && strlen(err->text) < MU_ERR_TEXT - 1);
}

Test(conf, keep)
{
	static const struct {
		const char *line, *key, *shown; /* shown NULL: refused */
		int64_t sec;
	} row[] = {{"MusterKeepEvents=12months", "MusterKeepEvents", "12months", 365 * 86400},
		   {"MusterKeepEvents=12", "MusterKeepEvents", "12months", 365 * 86400},
		   {"MusterKeepJobs=1day", "MusterKeepJobs", "1days", 86400},
		   {"MusterKeepJobs=36Hours", "MusterKeepJobs", "36hours", 36 * 3600},
		   {"MusterKeepScripts=30-00:00:00", "MusterKeepScripts", "30-00:00:00", 30 * 86400},
		   {"MusterKeepScripts=0-00:00:08", "MusterKeepScripts", "00:00:08", 8},
		   {"MusterKeepScripts=0", "MusterKeepScripts", "0", 0},
		   {"ReturnToService=1", "MusterKeepEnvironments", "30days", 30 * 86400},
		   {"BlobRetention=7days", "MusterKeepEnvironments", "7days", 7 * 86400},
		   {"PurgeJobAfter=24month", "MusterKeepJobs", "24months", 2 * 365 * 86400},
		   {"PurgeEventAfter=1", "MusterKeepNodes", "1months", 365 * 86400 / 12},
		   {"PurgeUsageAfter=1", "MusterKeepJobs", "0", 0},
		   {"MusterKeepJobs=1year", "", NULL, 0},
		   {"MusterKeepJobs=days", "", NULL, 0},
		   {"MusterKeepJobs=-1days", "", NULL, 0},
		   {"PurgeStepAfter=soon", "", NULL, 0}};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct world w = {.notes = ""};
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		Mu__Config *c;
		char text[256];
		snprintf(text, sizeof text,
			 "ClusterName=c\nSlurmctldHost=h\n%s\nNodeName=n CPUs=1\n"
			 "PartitionName=p Nodes=n Default=YES\n",
			 row[i].line);
		int rc = parse(&w, text, &arena, &c, &err);
		cr_assert_eq(rc != 0, row[i].shown == NULL, "%s: %s", row[i].line, err.text);
		if (!rc) {
			cr_assert_str_eq(mu_conf_get(c, row[i].key, ""), row[i].shown, "%s", row[i].line);
			cr_assert_str_eq(mu_conf_get(c, "BlobRetention", "none"), "none");
			for (int tier = 0; tier < MU_KEEP_TIERS; tier++)
				if (!strcmp(mu_keep_key(tier), row[i].key))
					cr_assert_eq(mu_keep_sec(c, tier), row[i].sec, "%s", row[i].line);
		}
		mu_arena_free(&arena);
	}
}

Test(conf, wrong)
{
	struct world w = {.name = {"loop.conf", "bad.conf", "secret.conf"},
			  .text = {"\nInclude loop.conf\n", "\n\nKilwait=3\n", NULL},
			  .notes = ""};
	char text[4096];
	for (size_t i = 0; i < ROWS(wrong); i++) {
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		Mu__Config *c = NULL;
		snprintf(text, sizeof(text), "%s%s\n", right, wrong[i].text);
		int rc = parse(&w, text, &arena, &c, &err);
		check(&err, rc, wrong[i].text, wrong[i].line, wrong[i].value, wrong[i].cure);
		cr_assert_null(c);
		mu_arena_free(&arena);
	}
	for (size_t i = 0; i < ROWS(wrong_companion); i++) {
		struct world one = {
		    .name = {wrong_companion[i].name}, .text = {wrong_companion[i].text}, .notes = ""};
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		Mu__Config *c = NULL;
		int rc =
		    parse(&one, "ClusterName=c\nSlurmctldHost=a\nGresTypes=gpu\nNodeName=n1 Gres=gpu:3\n",
			  &arena, &c, &err);
		check(&err, rc, wrong_companion[i].text, wrong_companion[i].line, wrong_companion[i].value,
		      wrong_companion[i].cure);
		mu_arena_free(&arena);
	}
	/* The four lines alone are right; without a name or a controller they are not. */
	static const struct {
		const char *text, *cure;
	} bare[] = {{"", "ClusterName=NAME"}, {"ClusterName=c", "SlurmctldHost=NAME"}, {right, NULL}};
	for (size_t i = 0; i < ROWS(bare); i++) {
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		Mu__Config *c = NULL;
		int rc = parse(&w, bare[i].text, &arena, &c, &err);
		cr_assert_eq(rc == 0, !bare[i].cure, "%s", err.text);
		cr_assert(!bare[i].cure || strstr(err.text, bare[i].cure), "%s", err.text);
		mu_arena_free(&arena);
	}
}

/* ---- folding ---- */

static size_t packed_size(const Mu__Config *c)
{
	return mu__config__get_packed_size(c);
}

static bool same_config(const Mu__Config *a, const Mu__Config *b)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf x = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf y = {0};
	mu_pb_pack(&a->base, &x);
	mu_pb_pack(&b->base, &y);
	return x.len == y.len && !memcmp(x.data, y.data, x.len);
}

Test(conf, fold)
{
	static const struct {
		const char *text;
		size_t nodes, lines; /* spelt out, folded */
		size_t most;	     /* bytes folded */
	} rows[] = {
	    {"NodeName=n[1-10000] CPUs=64 RealMemory=512000 Gres=gpu:a100:8 Feature=ib,ssd\n"
	     "GresTypes=gpu\nPartitionName=all Nodes=ALL Default=YES\n"
	     "PartitionName=half Nodes=n[1-5000]\nPartitionName=odd Nodes=n[1-9000],n10000\n",
	     10000, 1, 20000},
	    {"NodeName=n[1-4] NodeAddr=10.0.0.[1-4] CPUs=4\nPartitionName=p Nodes=n[2-3]\n", 4, 1, 20000},
	    {"NodeName=n[1-4] NodeAddr=10.0.0.[7,9,3,1] NodeHostName=one CPUs=4\nPartitionName=p Nodes=ALL\n",
	     4, 1, 20000},
	    {"NodeName=n[1-4] NodeHostName=localhost Port=[7001-7004] CPUs=4\nPartitionName=p Nodes=n4,n1\n",
	     4, 4, 20000},
	    {"NodeName=a,b,c7,c08 CPUs=1\nNodeName=d CPUs=2\nNodeName=e,f CPUs=1\nPartitionName=p "
	     "Nodes=f,a\n",
	     7, 3, 20000},
	    {"NodeName=r[1-2]c[01-12] CPUs=1\nNodeSet=rack Nodes=r2c[01-12]\nPartitionName=p "
	     "Nodes=rack,r1c03\n",
	     24, 1, 20000},
	    {"NodeName=x CPUs=1\nPartitionName=none Nodes=\"\"\n", 1, 1, 20000},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct mu_arena arena = {0};
		struct world w = {0};
		struct mu_err err = {0};
		Mu__Config *c, *folded, *twice, *back;
		char *text = mu_arena_printf(&arena, "ClusterName=c\nSlurmctldHost=h\n%s", rows[i].text);
		cr_assert(!parse(&w, text, &arena, &c, &err), "row %zu: %s", i, err.text);
		cr_assert(c->n_node == rows[i].nodes, "row %zu has %zu nodes", i, c->n_node);
		folded = mu_conf_fold(c, &arena);
		twice = mu_conf_fold(folded, &arena);
		cr_assert(folded->n_node == rows[i].lines, "row %zu folds to %zu lines", i, folded->n_node);
		cr_assert(packed_size(folded) <= rows[i].most, "row %zu: %zu bytes", i, packed_size(folded));
		cr_assert(same_config(folded, twice), "row %zu folds differently the second time", i);
		cr_assert(!mu_conf_expand(folded, 10000, &arena, &back, &err), "row %zu: %s", i, err.text);
		cr_assert(same_config(c, back), "row %zu does not come back", i);
		cr_assert(!mu_conf_expand(c, 10000, &arena, &back, &err) && same_config(c, back),
			  "row %zu as it is", i);
		cr_assert(mu_conf_expand(folded, rows[i].nodes - 1, &arena, &back, &err),
			  "row %zu has no bound", i);
		mu_arena_free(&arena);
	}
}

/* What nobody folded: lists that are none, of another length, or without end. */
Test(conf, expand_refuses)
{
	static const struct {
		const char *name, *addr;
	} rows[] = {{"n[1-", NULL},
		    {"n[1-3]", "a[1-2]"},
		    {"n[1-999999999]", NULL},
		    {"n[1-2]", "a]"},
		    {"n[1-60],m[1-60]", NULL}};
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		Mu__NodeConf node = MU__NODE_CONF__INIT, *list[] = {&node};
		Mu__Config c = MU__CONFIG__INIT, *back;
		node.name = (char *)rows[i].name;
		node.addr = (char *)rows[i].addr;
		c.node = list;
		c.n_node = 1;
		cr_assert(mu_conf_expand(&c, 100, &arena, &back, &err) && err.text[0], "row %zu", i);
		mu_arena_free(&arena);
	}
}

/* One word of a partition at a time, as scontrol update takes it: what it sets, and what it takes away. */
Test(conf, partition_words)
{
	static const struct {
		const char *key, *value;
		int code;
		const char *
		    conf; /* a piece of what is set, as protobuf-c prints numbers; NULL: nothing to look at */
		uint32_t clear[3];   /* fields that are to be absent */
		const char *message; /* a piece of the refusal, or of the note */
	} rows[] = {
	    {"MaxTime", "60", 0, NULL, {0}, NULL},
	    {"maxtime", "UNLIMITED", 0, NULL, {0}, NULL},
	    {"MaxNodes", "UNLIMITED", 0, NULL, {7}, NULL},
	    {"MaxNodes", "4", 0, NULL, {0}, NULL},
	    {"AllowAccounts", "a,b", 0, NULL, {0}, NULL},
	    {"AllowAccounts", "ALL", 0, NULL, {13}, NULL},
	    {"AllowGroups", "", 0, NULL, {12}, NULL},
	    {"QOS", "", 0, NULL, {17}, NULL},
	    {"DefMemPerCPU", "100", 0, NULL, {22}, NULL},
	    {"DefMemPerNode", "100", 0, NULL, {21}, NULL},
	    {"MaxMemPerCPU", "0", 0, NULL, {23, 24}, NULL},
	    {"OverSubscribe", "force:2", 0, "FORCE:2", {0}, NULL},
	    {"OverSubscribe", "", MU_EINVAL, NULL, {0}, "has no value"},
	    {"OverTimeLimit", "5", 0, NULL, {0}, NULL},
	    {"OverTimeLimit", "UNLIMITED", 0, NULL, {0}, NULL},
	    {"OverTimeLimit", "soon", MU_EINVAL, NULL, {0}, "or UNLIMITED"},
	    {"TRESBillingWeights", "CPU=1", 0, NULL, {0}, NULL},
	    {"TRESBillingWeights", "", 0, NULL, {0}, NULL},
	    {"PowerDownOnIdle", "YES", 0, NULL, {0}, "without effect: PowerDownOnIdle"},
	    {"State", "ASLEEP", MU_EINVAL, NULL, {0}, "must be one of"},
	    {"Default", "maybe", MU_EINVAL, NULL, {0}, "must be YES or NO"},
	    {"MaxTimes", "5", MU_EINVAL, NULL, {0}, "did you mean MaxTime"},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		struct world w = {.notes = ""};
		Mu__PartitionConf conf = MU__PARTITION_CONF__INIT;
		Mu__PartitionUpdate u = MU__PARTITION_UPDATE__INIT;
		u.conf = &conf;
		int rc = mu_conf_partition_word(rows[i].key, rows[i].value, world_note, &w, &arena, &u, &err);
		cr_expect_eq(rc, rows[i].code, "%s=%s: %d %s", rows[i].key, rows[i].value, rc, err.text);
		size_t clear = 0;
		while (clear < 3 && rows[i].clear[clear])
			clear++;
		cr_expect_eq(u.n_clear, clear, "%s=%s clears %zu fields", rows[i].key, rows[i].value,
			     u.n_clear);
		for (size_t k = 0; k < clear && k < u.n_clear; k++)
			cr_expect_eq(u.clear[k], rows[i].clear[k], "%s=%s clears %u", rows[i].key,
				     rows[i].value, u.clear[k]);
		if (rows[i].conf)
			cr_expect_str_eq(conf.oversubscribe, rows[i].conf);
		if (rows[i].message)
			cr_expect(strstr(rc ? err.text : w.notes, rows[i].message), "%s=%s says %s%s",
				  rows[i].key, rows[i].value, err.text, w.notes);
		mu_arena_free(&arena);
	}
}
